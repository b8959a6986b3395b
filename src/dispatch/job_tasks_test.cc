#include "dispatch/job_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>

namespace divvy::dispatch {
namespace {

using model::JobId;

TEST(JobTasks, OfOneJobRunInTheirOrder) {
  JobTasks tasks(4);
  std::vector<int> seen;  // one at a time, so no lock
  for (int i = 0; i < 100; ++i) tasks.add(JobId(1), [&seen, i] { seen.push_back(i); });
  tasks.wait_until_idle();
  ASSERT_EQ(seen.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST(JobTasks, OfDifferentJobsRunSideBySide) {
  JobTasks tasks(2);
  // Each waits for the other.
  std::latch both(2);
  for (const std::uint64_t job : {1, 2}) tasks.add(JobId(job), [&both] { both.arrive_and_wait(); });
  tasks.wait_until_idle();
  EXPECT_TRUE(both.try_wait());
}

TEST(JobTasks, WhatWaitsAtTheEndIsDropped) {
  std::atomic<int> done = 0;
  {
    JobTasks tasks(1);
    std::latch begun(1);
    tasks.add(JobId(1), [&] {
      begun.count_down();
      ++done;
    });
    begun.wait();
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace divvy::dispatch
