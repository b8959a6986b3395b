// When those who were killed and have not died are killed once more. Each time all processes of the
// machine are looked through, so it is done often while they die and once a second when the kernel
// holds one of them. Pure; used by a shepherd and by whoever ends what a lost one left.
#pragma once

#include <algorithm>
#include <chrono>

namespace divvy::run {

class KillSchedule {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLongestPause{1'000};

  [[nodiscard]] bool is_due(Moment now) const { return now >= due_; }
  [[nodiscard]] Moment due() const { return due_; }
  void tried(Moment now) {
    due_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  // One of them has died: the others may follow.
  void progressed() { *this = KillSchedule(); }

 private:
  Moment due_;
  std::chrono::milliseconds pause_ = kFirstPause;
};

}  // namespace divvy::run
