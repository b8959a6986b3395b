#include "base/check.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

TEST(Check, PassesWhatIsTrueWithoutFormattingTheMessage) {
  int formatted = 0;
  const auto count = [&] { return ++formatted; };
  const volatile bool holds =
      true;  // Unknown to the compiler, so that the message is compiled too.
  DIVVY_CHECK(holds, "{}", count());
  DIVVY_CHECK(true);
  EXPECT_EQ(formatted, 0);
}

TEST(CheckDeathTest, SaysPlaceExpressionAndMessage) {
  const int used = 3;
  EXPECT_DEATH(DIVVY_CHECK(used <= 2, "gpu {}: {} used", 7, used),
               "check_test.cc:[0-9]+: check failed: used <= 2: gpu 7: 3 used");
}

TEST(CheckDeathTest, NeedsNoMessage) { EXPECT_DEATH(DIVVY_CHECK(1 > 2), "check failed: 1 > 2\n"); }

}  // namespace
}  // namespace divvy
