#include "jobs/retry.h"

#include <gtest/gtest.h>

namespace divvy::jobs {
namespace {

using model::Seconds;

TEST(Retry, ThePauseDoublesUpToTheLongest) {
  const model::RetryPolicy policy{5, Seconds(10), Seconds(60)};
  EXPECT_EQ(retry_pause(policy, 1), Seconds(10));
  EXPECT_EQ(retry_pause(policy, 2), Seconds(20));
  EXPECT_EQ(retry_pause(policy, 3), Seconds(40));
  EXPECT_EQ(retry_pause(policy, 4), Seconds(60));
  EXPECT_EQ(retry_pause(policy, 5), Seconds(60));
  EXPECT_FALSE(retry_pause(policy, 6).has_value());
}

TEST(Retry, WithoutRetriesThereIsNone) { EXPECT_FALSE(retry_pause({}, 1).has_value()); }

TEST(Retry, ManyFailuresDoNotOverflow) {
  const model::RetryPolicy policy{1000, Seconds(1), std::chrono::days(3660)};
  EXPECT_EQ(retry_pause(policy, 1000), Seconds(std::chrono::days(3660)));
  EXPECT_EQ(retry_pause({1000, Seconds(0), Seconds(0)}, 1000), Seconds(0));
}

}  // namespace
}  // namespace divvy::jobs
