#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace divvy {
namespace {

using namespace std::chrono_literals;

constexpr auto kNever = [] { return false; };

TEST(ManualClock, StandsStillUntilAdvanced) {
  ManualClock clock;
  const TimePoint start = clock.now();
  const WallTime wall_start = clock.wall_now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(3s);
  EXPECT_EQ(clock.now() - start, 3s);
  EXPECT_EQ(clock.wall_now() - wall_start, 3s);
}

TEST(ManualClock, ShiftingTheCalendarLeavesMonotonicTimeAlone) {
  ManualClock clock;
  const TimePoint start = clock.now();
  const WallTime wall_start = clock.wall_now();
  clock.shift_wall(-1h);
  EXPECT_EQ(clock.now(), start);
  EXPECT_EQ(clock.wall_now(), wall_start - 1h);
}

TEST(ManualClock, APassedDeadlineDoesNotWait) {
  ManualClock clock;
  clock.advance(1s);
  EXPECT_FALSE(clock.wait_until(clock.now(), kNever));
  EXPECT_FALSE(clock.wait_until(clock.now() - 1ns, kNever));
}

TEST(ManualClock, AdvancingReleasesOnlyThoseWhoseTimeHasCome) {
  ManualClock clock;
  std::atomic<int> released{0};
  std::atomic<bool> stop{false};
  const TimePoint start = clock.now();
  std::thread early([&] {
    clock.wait_until(start + 10s, [&] { return stop.load(); });
    ++released;
  });
  std::thread late([&] {
    clock.wait_until(start + 20s, [&] { return stop.load(); });
    ++released;
  });
  clock.await_waiters(2);
  EXPECT_EQ(clock.next_deadline(), start + 10s);
  clock.advance(10s);
  early.join();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(clock.next_deadline(), start + 20s);
  clock.advance(10s);
  late.join();
  EXPECT_EQ(released, 2);
  EXPECT_EQ(clock.next_deadline(), std::nullopt);
}

TEST(ManualClock, WakeStopsAWaiter) {
  ManualClock clock;
  std::atomic<bool> stop{false};
  bool stopped = false;
  std::thread waiter(
      [&] { stopped = clock.wait_until(TimePoint::max(), [&] { return stop.load(); }); });
  clock.await_waiters(1);
  EXPECT_EQ(clock.next_deadline(), std::nullopt);
  stop = true;
  clock.wake();
  waiter.join();
  EXPECT_TRUE(stopped);
}

TEST(ManualClock, DrivesALoopRoundByRound) {
  ManualClock clock;
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::thread loop([&] {
    TimePoint next = clock.now();
    while (true) {
      next += 1s;
      if (clock.wait_until(next, [&] { return stop.load(); })) return;
      ++rounds;
    }
  });
  for (int round = 0; round < 100; ++round) {
    clock.await_waiters(1);
    EXPECT_EQ(rounds, round);
    clock.advance(1s);
  }
  clock.await_waiters(1);
  EXPECT_EQ(rounds, 100);
  stop = true;
  clock.wake();
  loop.join();
}

TEST(ManualClockDeathTest, DoesNotRunBackwards) {
  ManualClock clock;
  EXPECT_DEATH(clock.advance(-1ns), "cannot go back");
}

TEST(SystemClock, NeverRunsBackwards) {
  const SystemClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(clock.wall_now().time_since_epoch(), Duration::zero());
}

TEST(SystemClock, WaitsAtLeastUntilTheDeadline) {
  SystemClock clock;
  const TimePoint deadline = clock.now() + 1ms;
  EXPECT_FALSE(clock.wait_until(deadline, kNever));
  EXPECT_GE(clock.now(), deadline);
}

TEST(SystemClock, WakeStopsEveryWaiter) {
  SystemClock clock;
  std::atomic<bool> stop{false};
  std::atomic<int> stopped{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    const TimePoint deadline = i % 2 == 0 ? TimePoint::max() : clock.now() + 24h;
    waiters.emplace_back([&, deadline] {
      if (clock.wait_until(deadline, [&] { return stop.load(); })) ++stopped;
    });
  }
  stop = true;
  clock.wake();
  for (auto& waiter : waiters) waiter.join();
  EXPECT_EQ(stopped, 4);
}

}  // namespace
}  // namespace divvy
