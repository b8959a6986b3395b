#include "shim/cost.h"

#include <gtest/gtest.h>

namespace divvy::shim {
namespace {

// Every test has keys of its own: the table is the process's.
CostEntry* entry(const char* name) { return cost_of(kernel_key(name, 1)); }

TEST(Cost, OfAKernelNeverMeasuredIsUnknown) {
  CostEntry* unknown = entry("unknown");
  EXPECT_FALSE(is_measured(unknown));
  EXPECT_FALSE(is_measured(nullptr));
  EXPECT_EQ(predicted_ns(unknown), kUnknownCostNs);
}

TEST(Cost, NeverSamplesTheFirstUse) {
  CostEntry* kernel = entry("first");
  EXPECT_FALSE(wants_sample(kernel));
  EXPECT_TRUE(wants_sample(kernel));
}

TEST(Cost, SamplesAFewAndThenRarely) {
  CostEntry* kernel = entry("rarely");
  int samples = 0;
  for (int use = 0; use < 10'000; ++use) {
    if (!wants_sample(kernel)) continue;
    sample_begun(kernel);
    ++samples;
  }
  EXPECT_EQ(samples, 4 + 9);
}

TEST(Cost, ADroppedSampleIsTakenAgain) {
  CostEntry* kernel = entry("dropped");
  wants_sample(kernel);
  for (int i = 0; i < 4; ++i) sample_begun(kernel);
  EXPECT_FALSE(wants_sample(kernel));
  sample_dropped(kernel);
  EXPECT_TRUE(wants_sample(kernel));
}

// A minimum would say 10 us, and the tenant would be charged half of what it runs.
TEST(Cost, OfAKernelThatVariesIsItsMean) {
  CostEntry* kernel = entry("varies");
  for (int i = 0; i < 200; ++i) learn(kernel, i % 2 == 0 ? 10'000 : 30'000);
  EXPECT_NEAR(predicted_ns(kernel), 20'000, 3'000);
}

TEST(Cost, ASampleWithAnothersTimeSliceInItCountsLittle) {
  CostEntry* kernel = entry("sliced");
  for (int i = 0; i < 20; ++i) learn(kernel, 10'000);
  learn(kernel, 2'010'000);
  EXPECT_LT(predicted_ns(kernel), 12'000U);
}

TEST(Cost, FollowsAKernelThatBecameLonger) {
  CostEntry* kernel = entry("longer");
  for (int i = 0; i < 20; ++i) learn(kernel, 10'000);
  for (int i = 0; i < 80; ++i) learn(kernel, 1'000'000);
  EXPECT_NEAR(predicted_ns(kernel), 1'000'000, 20'000);
}

TEST(Cost, StaysWithinItsBounds) {
  CostEntry* kernel = entry("bounds");
  learn(kernel, 0);
  EXPECT_EQ(predicted_ns(kernel), 500U);
  for (int i = 0; i < 500; ++i) learn(kernel, UINT64_MAX);
  EXPECT_LE(predicted_ns(kernel), 4'000'000'000U);
  EXPECT_GT(predicted_ns(kernel), 3'900'000'000U);
}

}  // namespace
}  // namespace divvy::shim
