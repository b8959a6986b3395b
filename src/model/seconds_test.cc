#include "model/seconds.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace divvy::model {
namespace {

TEST(SecondsText, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_seconds("90"), Seconds(90));
  EXPECT_EQ(parse_seconds("90s"), Seconds(90));
  EXPECT_EQ(parse_seconds("30m"), Seconds(1800));
  EXPECT_EQ(parse_seconds("1h30m"), Seconds(5400));
  EXPECT_EQ(parse_seconds("2d"), Seconds(172'800));
  EXPECT_EQ(parse_seconds("0s"), Seconds(0));
}

TEST(SecondsText, WhatIsNoTimeIsShownWithItsPlace) {
  for (const char* text :
       {"", "-1", "1.5h", "1x", "h", "1h30", "30m1h", "1h1h", "99999999999s", " 1s", "1 s"}) {
    const auto refused = parse_seconds(text);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_NE(refused.error().message.find("1h30m"), std::string::npos) << refused.error().message;
  }
}

RC_GTEST_PROP(SecondsText, WhatIsWrittenIsReadBack, ()) {
  const Seconds seconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
  RC_ASSERT(parse_seconds(seconds_text(seconds)) == seconds);
}

}  // namespace
}  // namespace divvy::model
