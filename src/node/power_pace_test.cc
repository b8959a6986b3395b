#include "node/power_pace.h"

#include <gtest/gtest.h>

namespace divvy::node {
namespace {

constexpr double kLimit = 692;  // what an H200 with a limit of 700 W settles at

TEST(PowerPace, IsWhatWasMeasuredOnAPowerLimitedProduct) {
  // Cap, watts drawn, and work per GPU time over that of running alone: products of 4096 x 4096
  // matrices on an H200 (bench/results).
  struct Measured {
    double cap;
    double watts;
    double pace;
  };
  for (const auto& [cap, watts, pace] :
       {Measured{0.1, 199.8, 1.19}, Measured{0.25, 331.5, 1.19}, Measured{0.5, 547.1, 1.185},
        Measured{0.75, 689.1, 1.132}, Measured{0.9, 690.7, 1.049}}) {
    EXPECT_NEAR(power_pace({watts, kLimit}, cap), pace, 0.012) << "cap " << cap;
  }
}

TEST(PowerPace, IsOneForWorkThatTheLimitDoesNotTouch) {
  // ResNet-50 training on the same card.
  for (const auto& [busy, watts] :
       {std::pair{0.1, 146.9}, {0.25, 195.6}, {0.5, 271.1}, {0.75, 346.8}, {1.0, 422.7}}) {
    EXPECT_EQ(power_pace({watts, kLimit}, busy), 1.0) << busy;
  }
}

TEST(PowerPace, IsOneAtFullLoadWhateverTheWork) {
  EXPECT_EQ(power_pace({kLimit, kLimit}, 1.0), 1.0);
}

TEST(PowerPace, DoesNotBelieveNonsense) {
  EXPECT_EQ(power_pace({500, 0}, 0.5), 1.0);
  EXPECT_EQ(power_pace({500, 700}, 0.0), 1.0);
  EXPECT_EQ(power_pace({0, 700}, 0.5), 1.0);
  EXPECT_LE(power_pace({1e9, 700}, 0.02), 1.6);
}

TEST(PaceFilter, BelievesWhatItSawTwice) {
  PaceFilter filter;
  const double full = power_pace({547, kLimit}, 0.5);
  EXPECT_EQ(filter.update(PowerReading{547, kLimit}, 0.5), 1.0);
  EXPECT_EQ(filter.update(PowerReading{547, kLimit}, 0.5), full);
  EXPECT_EQ(filter.update(PowerReading{600, kLimit}, 0.5), full);
  EXPECT_EQ(filter.update(std::nullopt, 0.5), 1.0);
}

}  // namespace
}  // namespace divvy::node
