// Waits for many descriptors at once and calls what belongs to each. A thin layer over epoll.
//
// watch() and unwatch() may be called from any thread that holds the owner's lock; wait() is called
// by one thread without it, and what it returns is run by that thread with it. An event whose
// watch has ended meanwhile is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

class Reactor {
 public:
  using Token = std::uint64_t;
  using Callback = std::function<void()>;

  [[nodiscard]] static Result<Reactor> create();

  // Calls back whenever the descriptor is readable or hung up. Never 0.
  [[nodiscard]] Result<Token> watch(int fd, Callback callback);
  // Before the descriptor is closed. 0 is ignored.
  void unwatch(Token token);

  // Ends a wait() that is going on, or the next one. From any thread, without the lock.
  void wake() const;
  // Blocks until something happens; -1 waits for ever. Returns what happened.
  [[nodiscard]] std::vector<Token> wait(int timeout_ms) const;
  void run(Token token);

 private:
  struct Watched {
    int fd = -1;
    Callback callback;
  };

  UniqueFd epoll_;
  UniqueFd wake_;
  Token last_ = 0;
  std::unordered_map<Token, Watched> watched_;
};

}  // namespace divvy::sys
