#include "net/rate_limit.h"

#include <gtest/gtest.h>

namespace divvy::net {
namespace {

using std::chrono::milliseconds;

TEST(RateLimit, AllowsABurstOfOneSecondAndThenTheRate) {
  RateLimit limit(10);
  TimePoint now{};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limit.allow("ada", now)) << i;
  EXPECT_FALSE(limit.allow("ada", now));
  now += milliseconds(100);
  EXPECT_TRUE(limit.allow("ada", now));
  EXPECT_FALSE(limit.allow("ada", now));
  now += std::chrono::hours(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limit.allow("ada", now)) << i;
  EXPECT_FALSE(limit.allow("ada", now)) << "nothing is saved up beyond a second";
}

TEST(RateLimit, CountsEachCallerSeparately) {
  RateLimit limit(1);
  EXPECT_TRUE(limit.allow("ada", TimePoint{}));
  EXPECT_FALSE(limit.allow("ada", TimePoint{}));
  EXPECT_TRUE(limit.allow("bob", TimePoint{}));
}

TEST(RateLimit, NoLimitIsNone) {
  RateLimit limit(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limit.allow("ada", TimePoint{}));
  EXPECT_EQ(limit.remembered(), 0U);
}

TEST(RateLimit, RemembersABoundedNumberOfCallers) {
  RateLimit limit(1);
  for (std::size_t i = 0; i < 3 * RateLimit::kMostCallers; ++i) {
    EXPECT_TRUE(limit.allow(std::to_string(i), TimePoint{}));
  }
  EXPECT_LE(limit.remembered(), RateLimit::kMostCallers);
}

}  // namespace
}  // namespace divvy::net
