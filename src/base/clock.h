// Time as a dependency. Whatever needs the time or waits for it takes a `Clock&` in its
// constructor: the programs pass a SystemClock, tests pass a ManualClock and decide what time it
// is, with no sleeping. Every function may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <optional>

namespace divvy {

using Duration = std::chrono::nanoseconds;

// Never constructed; it makes monotonic time points a type that no other clock's points convert to.
struct Monotonic {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<Monotonic, Duration>;
  static constexpr bool is_steady = true;
};

// A moment on this machine since some arbitrary start; only differences mean anything.
using TimePoint = Monotonic::time_point;
// A moment on the calendar (UTC); may jump when somebody sets the clock, so never measure with it.
using WallTime = std::chrono::sys_time<Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual WallTime wall_now() const = 0;

  // Blocks until now() >= deadline or until `stop` answers true; says whether `stop` did.
  // TimePoint::max() waits for `stop` alone. `stop` is called from any thread with the clock's lock
  // held, so it only looks at atomics (and at now()), changes nothing and does not throw. Whoever
  // makes it true calls wake() afterwards.
  virtual bool wait_until(TimePoint deadline, const std::function<bool()>& stop) = 0;

  // Makes every waiter look at its stop condition again.
  virtual void wake() = 0;

 protected:
  Clock() = default;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override;
  [[nodiscard]] WallTime wall_now() const override;
  bool wait_until(TimePoint deadline, const std::function<bool()>& stop) override;
  void wake() override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

// A clock that stands still until it is told to move. Monotonic time starts at zero and wall time
// at 2026-01-01 00:00 UTC unless given.
class ManualClock final : public Clock {
 public:
  ManualClock();
  explicit ManualClock(WallTime wall_start);

  [[nodiscard]] TimePoint now() const override;
  [[nodiscard]] WallTime wall_now() const override;
  bool wait_until(TimePoint deadline, const std::function<bool()>& stop) override;
  void wake() override;

  // Moves both times forward and lets the waiters whose deadline has come go on. Not below zero.
  void advance(Duration by);
  // Moves wall time alone, as when an administrator sets the clock; may go backwards.
  void shift_wall(Duration by);

  // Returns once at least `count` threads are blocked in wait_until: how a test knows that the code
  // under test has got there, before it advances.
  void await_waiters(std::size_t count);
  // The next deadline that somebody waits for, if any.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

 private:
  struct Waiter {
    TimePoint deadline;
    const std::function<bool()>* stop;
  };

  [[nodiscard]] bool has_come(TimePoint deadline) const;
  // A thread that may go on but has not run yet does not count as blocked: otherwise a test that
  // advances and waits for the next round would take the last round's waiter for it.
  [[nodiscard]] bool is_blocked(const Waiter& waiter) const;

  // Readable without the lock, so that a stop condition may ask for the time. Written under the
  // lock.
  std::atomic<Duration::rep> elapsed_ns_{0};
  std::atomic<Duration::rep> wall_offset_ns_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable waiters_changed_;
  std::list<Waiter> waiters_;  // One entry per thread inside wait_until.
};

}  // namespace divvy
