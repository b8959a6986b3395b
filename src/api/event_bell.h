// Wakes everybody who watches events when there are new ones. Callable from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>

#include "base/unique_fd.h"

namespace divvy::api {

class EventBell {
 public:
  // One who listens, until it goes; before the bell does.
  class Listener {
   public:
    explicit Listener(EventBell& bell);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Readable when the bell rang since the last clear(); -1 when the process has no more
    // descriptors to give: look again after a while then.
    [[nodiscard]] int fd() const { return fd_.get(); }
    void clear() const;

   private:
    EventBell& bell_;
    UniqueFd fd_;
  };

  void ring();

 private:
  std::mutex mutex_;
  std::set<int> listening_;
};

}  // namespace divvy::api
