// The dead man's switch: a small process beside the daemon that holds every control page writable
// and, when the daemon is gone however it went, opens all gates, so that no tenant stands at a gate
// that nobody will open.
//
// The daemon makes one Keeper before it starts its threads and calls it from any of them. When the
// process itself dies, the next call starts another, which inherits the mappings.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/pages.h"

namespace divvy::share {

class Keeper {
 public:
  // As many pages are looked after; further ones are not.
  static constexpr std::size_t kMaxPages = 4096;

  [[nodiscard]] static Result<Keeper> create();
  ~Keeper();
  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&&) = delete;

  // `fd` is not sealed yet. Returns when the other process has mapped it.
  Status add(std::uint64_t key, int fd);
  // Our own mapping of the page, which stays until remove(): what the next process inherits.
  void know(std::uint64_t key, wire::ControlPage* page);
  void remove(std::uint64_t key);

  // Becomes readable (hung up) when the other process is gone; call revive() then. Changes with it.
  [[nodiscard]] int watch_fd() const;
  Status revive();
  [[nodiscard]] pid_t pid() const;

 private:
  Keeper() = default;
  Status start();
  void forget_process();

  mutable std::mutex mutex_;
  UniqueFd socket_;
  pid_t pid_ = -1;
  std::map<std::uint64_t, wire::ControlPage*> pages_;
};

// Stores "free, open" in all slices of a page. Also for a daemon that ends in order.
void open_all_gates(wire::ControlPage& page);

}  // namespace divvy::share
