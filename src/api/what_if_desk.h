// Who simulates just now. A simulation takes a thread's whole time for seconds, so there are few at
// one time, and nobody has two of them. Any thread.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"

namespace divvy::api {

class WhatIfDesk {
 public:
  static constexpr std::size_t kMost = 2;

  class Place {
   public:
    Place(WhatIfDesk* desk, std::string who) : desk_(desk), who_(std::move(who)) {}
    Place(Place&& other) noexcept
        : desk_(std::exchange(other.desk_, nullptr)), who_(std::move(other.who_)) {}
    Place& operator=(Place&&) = delete;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() {
      if (desk_ != nullptr) desk_->leave(who_);
    }

   private:
    WhatIfDesk* desk_;
    std::string who_;
  };

  [[nodiscard]] Result<Place> enter(const std::string& who) {
    const std::lock_guard lock(mutex_);
    if (present_.contains(who)) {
      return err(ErrorCode::kFailedPrecondition,
                 "a simulation of yours is still running; try again when it is done");
    }
    if (present_.size() >= kMost) {
      return err(ErrorCode::kFailedPrecondition,
                 "{} simulations are running, which is the most; try again in some seconds", kMost);
    }
    present_.insert(who);
    return Place(this, who);
  }

 private:
  void leave(const std::string& who) {
    const std::lock_guard lock(mutex_);
    present_.erase(who);
  }

  std::mutex mutex_;
  std::set<std::string> present_;
};

}  // namespace divvy::api
