#include "dispatch/job_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>

namespace divvy::dispatch {
namespace {

using model::JobId;

TEST(JobTasks, OfOneJobRunInTheirOrder) {
  JobTasks tasks(4, 1, 4);
  std::vector<int> seen;  // one at a time, so no lock
  for (int i = 0; i < 100; ++i)
    tasks.add(JobId(1), JobTasks::Kind::kStart, [&seen, i] { seen.push_back(i); });
  tasks.wait_until_idle();
  ASSERT_EQ(seen.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST(JobTasks, OfDifferentJobsRunSideBySide) {
  JobTasks tasks(2, 1, 1);
  // Each waits for the other.
  std::latch both(2);
  for (const std::uint64_t job : {1, 2})
    tasks.add(JobId(job), JobTasks::Kind::kStart, [&both] { both.arrive_and_wait(); });
  tasks.wait_until_idle();
  EXPECT_TRUE(both.try_wait());
}

TEST(JobTasks, EndsThatBlockKeepNobodyFromStarting) {
  JobTasks tasks(1, 1, 2);
  std::latch released(1);
  for (const std::uint64_t job : {1, 2, 3}) {
    tasks.add(JobId(job), JobTasks::Kind::kEnd, [&released] { released.wait(); });
  }
  std::latch started(1);
  tasks.add(JobId(4), JobTasks::Kind::kStart, [&started] { started.count_down(); });
  started.wait();
  released.count_down();
  tasks.wait_until_idle();
}

TEST(JobTasks, AStartAfterAnEndOfTheSameJobWaitsForIt) {
  JobTasks tasks(2, 1, 2);
  std::vector<int> seen;
  std::latch released(1);
  tasks.add(JobId(1), JobTasks::Kind::kEnd, [&] {
    released.wait();
    seen.push_back(1);
  });
  tasks.add(JobId(1), JobTasks::Kind::kStart, [&] { seen.push_back(2); });
  released.count_down();
  tasks.wait_until_idle();
  EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

TEST(JobTasks, WhatWaitsAtTheEndIsDropped) {
  std::atomic<int> done = 0;
  {
    JobTasks tasks(1, 1, 1);
    std::latch begun(1);
    tasks.add(JobId(1), JobTasks::Kind::kStart, [&] {
      begun.count_down();
      ++done;
    });
    begun.wait();
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace divvy::dispatch
