#include "base/timings.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

namespace divvy {
namespace {

TEST(Timings, CountsADurationInTheBucketThatEndsAtIt) {
  Timings timings;
  timings.record(std::chrono::microseconds(100));
  timings.record(std::chrono::nanoseconds(100'001));
  timings.record(std::chrono::seconds(5));
  timings.record(std::chrono::hours(1));
  timings.record(std::chrono::nanoseconds(-5));
  const DurationCounts counts = timings.counts();
  EXPECT_EQ(counts.buckets[0], 2U);
  EXPECT_EQ(counts.buckets[1], 1U);
  EXPECT_EQ(counts.buckets[9], 1U);
  EXPECT_EQ(counts.buckets[10], 1U);
  EXPECT_EQ(counts.sum_ns, 100'000U + 100'001U + 5'000'000'000U + 3'600'000'000'000U);
}

TEST(Timings, LosesNothingWhenManyThreadsCount) {
  Timings timings;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&timings] {
      for (int n = 0; n < 10'000; ++n) timings.record(std::chrono::microseconds(n));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto buckets = timings.counts().buckets;
  EXPECT_EQ(std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}), 40'000U);
}

TEST(Timings, AScopeRecordsHowLongItLived) {
  ManualClock clock;
  Timings timings;
  {
    const ScopedTiming timing(timings, clock);
    clock.advance(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(timings.counts().sum_ns, 3'000'000U);
}

}  // namespace
}  // namespace divvy
