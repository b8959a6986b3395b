#include "model/cron.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <optional>

namespace divvy::model {
namespace {

// In a time zone of its own; that of the process comes back afterwards.
class CronTest : public testing::Test {
 protected:
  CronTest() {
    if (const char* zone = ::getenv("TZ")) before_ = zone;
    use("UTC0");
  }
  ~CronTest() override {
    if (before_) {
      use(before_->c_str());
    } else {
      ::unsetenv("TZ");
      ::tzset();
    }
  }
  static void use(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  static WallTime local(const char* text) {
    tm time{};
    EXPECT_NE(::strptime(text, "%Y-%m-%d %H:%M:%S", &time), nullptr) << text;
    time.tm_isdst = -1;
    return WallTime(std::chrono::seconds(::mktime(&time)));
  }
  static std::string next(const char* cron, const char* after) {
    const auto found = Cron::parse(cron).value().next(local(after));
    if (!found) return "never";
    const time_t at = std::chrono::floor<std::chrono::seconds>(*found).time_since_epoch().count();
    tm time{};
    ::localtime_r(&at, &time);
    char text[32];
    ::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &time);
    return text;
  }
  static std::string error_of(std::string_view text) {
    const auto cron = Cron::parse(text);
    return cron ? "" : cron.error().message;
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(CronTest, ComesAtTheNextMomentThatFits) {
  EXPECT_EQ(next("0 3 * * *", "2026-11-19 02:30:00"), "2026-11-19 03:00");
  EXPECT_EQ(next("0 3 * * *", "2026-11-19 03:00:00"), "2026-11-20 03:00");
  EXPECT_EQ(next("*/15 * * * *", "2026-11-19 02:31:07"), "2026-11-19 02:45");
  EXPECT_EQ(next("5/20 * * * *", "2026-11-19 02:31:00"), "2026-11-19 02:45");
  EXPECT_EQ(next("30 8-10,22 * * *", "2026-11-19 10:30:00"), "2026-11-19 22:30");
  EXPECT_EQ(next("0 0 1 jan *", "2026-11-19 00:00:00"), "2027-01-01 00:00");
  EXPECT_EQ(next("59 23 31 * *", "2026-11-19 00:00:00"), "2026-12-31 23:59");
  EXPECT_EQ(next("0 0 29 2 *", "2026-11-19 00:00:00"), "2028-02-29 00:00");
  EXPECT_EQ(next("0 0 30 2 *", "2026-11-19 00:00:00"), "never");
}

TEST_F(CronTest, DaysOfTheWeekHaveNamesAndSundayTwoNumbers) {
  // 2026-11-19 is a Thursday.
  EXPECT_EQ(next("0 9 * * Mon-Fri", "2026-11-20 09:00:00"), "2026-11-23 09:00");
  EXPECT_EQ(next("0 9 * * 0", "2026-11-19 09:00:00"), "2026-11-22 09:00");
  EXPECT_EQ(next("0 9 * * 7", "2026-11-19 09:00:00"), "2026-11-22 09:00");
  EXPECT_EQ(next("0 9 * * 5-7", "2026-11-21 10:00:00"), "2026-11-22 09:00");
  // Where both kinds of day are restricted, either is enough.
  EXPECT_EQ(next("0 9 1 * fri", "2026-11-19 09:00:00"), "2026-11-20 09:00");
  EXPECT_EQ(next("0 9 20 * */2", "2026-11-18 09:00:00"), "2026-12-20 09:00")
      << "but not with a *: 20 November is a Friday";
}

TEST_F(CronTest, ShortNamesAreFields) {
  EXPECT_EQ(next("@hourly", "2026-11-19 02:31:00"), "2026-11-19 03:00");
  EXPECT_EQ(next("@daily", "2026-11-19 02:31:00"), "2026-11-20 00:00");
  EXPECT_EQ(next("@weekly", "2026-11-19 02:31:00"), "2026-11-22 00:00");
  EXPECT_EQ(next("@Monthly", "2026-11-19 02:31:00"), "2026-12-01 00:00");
  EXPECT_EQ(next("@yearly", "2026-11-19 02:31:00"), "2027-01-01 00:00");
}

TEST_F(CronTest, ClocksThatAreChangedTakeNoRunAwayAndGiveNoneTwice) {
  use("CET-1CEST,M3.5.0,M10.5.0/3");
  // From two o'clock to three there is no time that day.
  EXPECT_EQ(next("30 2 * * *", "2026-03-28 12:00:00"), "2026-03-29 03:30");
  EXPECT_EQ(next("30 2 * * *", "2026-03-29 03:30:00"), "2026-03-30 02:30");
  // From two to three there are two of them.
  const Cron cron = Cron::parse("30 2 * * *").value();
  const auto first = cron.next(local("2026-10-24 12:00:00"));
  ASSERT_TRUE(first.has_value());
  const auto second = cron.next(*first);
  ASSERT_TRUE(second.has_value());
  EXPECT_GE(*second - *first, std::chrono::hours(23));
}

TEST_F(CronTest, WrongOnesNameTheField) {
  EXPECT_TRUE(error_of("0 3 * *").starts_with("\"0 3 * *\" is not five fields"));
  EXPECT_TRUE(error_of("@never").starts_with("\"@never\" is not five fields"));
  EXPECT_EQ(error_of("60 3 * * *"),
            "the minute \"60\" is not *, or numbers from 0 to 59 like 5, 1-5, 1,3 or */2");
  EXPECT_TRUE(error_of("0 24 * * *").starts_with("the hour \"24\""));
  EXPECT_TRUE(error_of("0 3 0 * *").starts_with("the day of the month \"0\""));
  EXPECT_TRUE(error_of("0 3 * foo *").starts_with("the month \"foo\""));
  EXPECT_TRUE(error_of("0 3 * * 5-1").starts_with("the day of the week \"5-1\""));
  for (const char* text : {"*/0 * * * *", "1, * * * *", "1-2-3 * * * *", "1/ * * * *", "-1 * * * *",
                           "*/99999999999 * * * *", ""}) {
    EXPECT_NE(error_of(text), "") << text;
  }
  EXPECT_EQ(error_of("*/2147483647 * * * *"), "");
}

}  // namespace
}  // namespace divvy::model
