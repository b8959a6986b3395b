// While a command only looks on (logs -f, wait, --watch), Ctrl-C ends the looking and nothing else:
// it says so and how to come back. One at a time, on the main thread.
#pragma once

#include <csignal>
#include <string>

namespace divvy::cli {

// As shells report a process that SIGINT ended.
constexpr int kExitDetached = 130;

class DetachOnInterrupt {
 public:
  // `words` are said on standard error, where that is a terminal.
  explicit DetachOnInterrupt(const std::string& words);
  ~DetachOnInterrupt();
  DetachOnInterrupt(const DetachOnInterrupt&) = delete;
  DetachOnInterrupt& operator=(const DetachOnInterrupt&) = delete;

 private:
  struct sigaction before_{};
};

}  // namespace divvy::cli
