#include "run/kill_schedule.h"

#include <gtest/gtest.h>

namespace divvy::run {
namespace {

using namespace std::chrono_literals;

int times_due(KillSchedule& schedule, KillSchedule::Moment from, std::chrono::seconds length) {
  int times = 0;
  for (auto now = from; now < from + length; now += 1ms) {
    if (!schedule.is_due(now)) continue;
    ++times;
    schedule.tried(now);
  }
  return times;
}

TEST(KillSchedule, IsOnceASecondForAProcessThatDoesNotDie) {
  KillSchedule schedule;
  const KillSchedule::Moment begin(1h);
  EXPECT_LE(times_due(schedule, begin, 10s), 16);
  EXPECT_EQ(times_due(schedule, begin + 10s, 60s), 60);
}

TEST(KillSchedule, IsOftenAgainWhenOneHasDied) {
  KillSchedule schedule;
  const KillSchedule::Moment begin(1h);
  times_due(schedule, begin, 10s);
  schedule.progressed();
  EXPECT_TRUE(schedule.is_due(begin + 10s));
  schedule.tried(begin + 10s);
  EXPECT_EQ(schedule.due(), begin + 10s + KillSchedule::kFirstPause);
}

}  // namespace
}  // namespace divvy::run
