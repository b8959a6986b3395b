#include "gpuload/stats.h"

#include <gtest/gtest.h>

namespace divvy::gpuload {
namespace {

TEST(Stats, NothingMeasuredIsAllZero) {
  const Summary summary = summarize({});
  EXPECT_EQ(summary.count, 0U);
  EXPECT_EQ(summary.max, 0.0);
}

TEST(Stats, OneSampleIsEveryPercentile) {
  const Summary summary = summarize({7});
  EXPECT_EQ(summary.p50, 7);
  EXPECT_EQ(summary.p99, 7);
  EXPECT_EQ(summary.mean, 7);
}

TEST(Stats, PercentilesOfAHundredAreTheRanks) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Summary summary = summarize(samples);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.p50, 50);
  EXPECT_EQ(summary.p90, 90);
  EXPECT_EQ(summary.p99, 99);
  EXPECT_EQ(summary.max, 100);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
}

TEST(Stats, P99OfFewSamplesIsTheSlowest) { EXPECT_EQ(summarize({1, 2, 3, 900}).p99, 900); }

TEST(Stats, PercentilesAreAlwaysSamples) {
  const std::vector<double> sorted = {1, 10};
  EXPECT_EQ(percentile(sorted, 0), 1);
  EXPECT_EQ(percentile(sorted, 50), 1);
  EXPECT_EQ(percentile(sorted, 51), 10);
  EXPECT_EQ(percentile(sorted, 100), 10);
}

}  // namespace
}  // namespace divvy::gpuload
