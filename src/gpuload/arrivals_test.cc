#include "gpuload/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace divvy::gpuload {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(Arrivals, SameSeedSameTimes) {
  EXPECT_EQ(poisson_arrivals(200, kSecond, 1), poisson_arrivals(200, kSecond, 1));
  EXPECT_NE(poisson_arrivals(200, kSecond, 1), poisson_arrivals(200, kSecond, 2));
}

TEST(Arrivals, RiseAndStayInsideTheRun) {
  const auto arrivals = poisson_arrivals(1000, 3 * kSecond, 7);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  ASSERT_FALSE(arrivals.empty());
  EXPECT_LT(arrivals.back(), 3 * kSecond);
}

TEST(Arrivals, ComeAtTheAskedRateWithExponentialGaps) {
  const auto arrivals = poisson_arrivals(1000, 100 * kSecond, 42);
  const double count = static_cast<double>(arrivals.size());
  EXPECT_NEAR(count, 100'000, 4 * std::sqrt(100'000.0));
  // Of exponential gaps, a part of 1/e is longer than the mean.
  double longer = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) longer += arrivals[i] - arrivals[i - 1] > 1'000'000;
  EXPECT_NEAR(longer / count, std::exp(-1.0), 0.01);
}

TEST(Arrivals, ARunOfNoLengthHasNone) { EXPECT_TRUE(poisson_arrivals(200, 0, 1).empty()); }

}  // namespace
}  // namespace divvy::gpuload
