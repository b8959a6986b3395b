#include "base/clock.h"

#include <algorithm>

#include "base/check.h"

namespace divvy {
namespace {

std::chrono::steady_clock::time_point to_steady(TimePoint point) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(point.time_since_epoch()));
}

constexpr WallTime kManualStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

}  // namespace

TimePoint SystemClock::now() const {
  return TimePoint(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

WallTime SystemClock::wall_now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

bool SystemClock::wait_until(TimePoint deadline, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  if (deadline == TimePoint::max()) {
    changed_.wait(lock, stop);
    return true;
  }
  return changed_.wait_until(lock, to_steady(deadline), stop);
}

void SystemClock::wake() {
  // Taking the lock puts this after the check of every waiter that has not gone to sleep yet;
  // without it, the notification could fall into the gap between the check and the sleep.
  {
    const std::scoped_lock lock(mutex_);
  }
  changed_.notify_all();
}

ManualClock::ManualClock() : ManualClock(kManualStart) {}

ManualClock::ManualClock(WallTime wall_start)
    : wall_offset_ns_(wall_start.time_since_epoch().count()) {}

TimePoint ManualClock::now() const { return TimePoint(Duration(elapsed_ns_.load())); }

WallTime ManualClock::wall_now() const {
  return WallTime(Duration(elapsed_ns_.load() + wall_offset_ns_.load()));
}

bool ManualClock::wait_until(TimePoint deadline, const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  const auto mine = waiters_.insert(waiters_.end(), Waiter{deadline, &stop});
  waiters_changed_.notify_all();
  bool stopped = false;
  changed_.wait(lock, [&] {
    stopped = stop();
    return stopped || has_come(deadline);
  });
  waiters_.erase(mine);
  return stopped;
}

void ManualClock::wake() {
  {
    const std::scoped_lock lock(mutex_);
  }
  changed_.notify_all();
}

void ManualClock::advance(Duration by) {
  DIVVY_CHECK(by >= Duration::zero(), "monotonic time cannot go back by {} ns", -by.count());
  {
    const std::scoped_lock lock(mutex_);
    elapsed_ns_ += by.count();
  }
  changed_.notify_all();
}

void ManualClock::shift_wall(Duration by) { wall_offset_ns_ += by.count(); }

void ManualClock::await_waiters(std::size_t count) {
  std::unique_lock lock(mutex_);
  waiters_changed_.wait(lock, [&] {
    const auto blocked =
        std::ranges::count_if(waiters_, [&](auto& waiter) { return is_blocked(waiter); });
    return static_cast<std::size_t>(blocked) >= count;
  });
}

std::optional<TimePoint> ManualClock::next_deadline() const {
  const std::scoped_lock lock(mutex_);
  TimePoint next = TimePoint::max();
  for (const Waiter& waiter : waiters_) {
    if (is_blocked(waiter)) next = std::min(next, waiter.deadline);
  }
  if (next == TimePoint::max()) return std::nullopt;
  return next;
}

bool ManualClock::has_come(TimePoint deadline) const {
  return deadline != TimePoint::max() && now() >= deadline;
}

bool ManualClock::is_blocked(const Waiter& waiter) const {
  return !has_come(waiter.deadline) && !(*waiter.stop)();
}

}  // namespace divvy
