#include "gpuload/schedule.h"

#include <gtest/gtest.h>

namespace divvy::gpuload {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(Schedule, ReadsSpansInSeconds) {
  const auto schedule = Schedule::parse("0:5,8:20.5");
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule->spans(),
            (std::vector<Span>{{0, 5 * kSecond}, {8 * kSecond, 20 * kSecond + kSecond / 2}}));
  EXPECT_EQ(schedule->end_ns(), 20 * kSecond + kSecond / 2);
}

TEST(Schedule, RefusesWhatIsNoListOfRisingSpans) {
  for (const char* text :
       {"", ":", "5", "0:", ":5", "5:5", "5:4", "0:5,", ",0:5", "0:5,4:6", "-1:5", "0:nan", "0:inf",
        "0:1e9", "0:5;6:7", "0x1:5", "0: 5", "0:5:6", "1e400:2"}) {
    EXPECT_FALSE(Schedule::parse(text).has_value()) << text;
  }
}

TEST(Schedule, RefusesMoreSpansThanAnybodyNeeds) {
  std::string text = "0:1";
  for (int i = 1; i <= 10'000; ++i) {
    text += "," + std::to_string(2 * i) + ":" + std::to_string(2 * i + 1);
  }
  EXPECT_EQ(Schedule::parse(text).error().code, ErrorCode::kOutOfRange);
}

TEST(Schedule, NextWorkSkipsPauses) {
  const auto schedule = *Schedule::parse("1:2,3:4");
  EXPECT_EQ(schedule.next_work(0), kSecond);
  EXPECT_EQ(schedule.next_work(kSecond + 7), kSecond + 7);
  EXPECT_EQ(schedule.next_work(2 * kSecond), 3 * kSecond);
  EXPECT_EQ(schedule.next_work(4 * kSecond), std::nullopt);
  EXPECT_TRUE(schedule.works_at(kSecond));
  EXPECT_FALSE(schedule.works_at(2 * kSecond));
}

TEST(StartMoment, IsANumberOfNanoseconds) {
  EXPECT_EQ(start_moment("123456789012345"), 123456789012345U);
  for (const char* text : {"", "soon", "-5", "12x", "99999999999999999999999"}) {
    EXPECT_THROW(start_moment(text), std::runtime_error) << text;
  }
}

}  // namespace
}  // namespace divvy::gpuload
