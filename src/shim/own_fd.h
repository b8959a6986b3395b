// A descriptor in somebody else's program, which may close it (daemons and sandboxes close all that
// they do not know) and get the same number for a file of its own. So it is compared with what it
// was before every use, and it lives at a high number, which is rarely given out again.
#pragma once

#include <stdint.h>

#include <atomic>

namespace divvy::shim {

class OwnFd {
 public:
  // Takes `fd`, which refers to a socket or a memfd: those have an inode of their own.
  void take(int fd);
  // The descriptor while it is still ours, otherwise -1.
  [[nodiscard]] int get() const;
  // Closes it if it is still ours.
  void close();
  // There was one, and the program has closed it.
  [[nodiscard]] bool lost() const { return fd_.load() >= 0 && get() < 0; }

 private:
  std::atomic<int> fd_{-1};
  std::atomic<uint64_t> device_{0};
  std::atomic<uint64_t> inode_{0};
};

}  // namespace divvy::shim
