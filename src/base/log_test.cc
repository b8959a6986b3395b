#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/units.h"

namespace divvy {
namespace {

// The line without its time, which is the second word of a text line and the first JSON field.
std::string without_time(const std::string& line) {
  const bool json = line.starts_with('{');
  const std::size_t begin = json ? line.find("\"time\"") : line.find(' ') + 1;
  const std::size_t end = json ? line.find(',') + 1 : line.find(' ', begin) + 1;
  std::string rest = line;
  rest.erase(begin, end - begin);
  return rest;
}

TEST(Log, TextHasLevelTimeMessageAndFields) {
  const LogCapture capture;
  log_warning("gpu lost", {{"gpu", 0}, {"xid", "79"}});
  ASSERT_EQ(capture.lines().size(), 1U);
  EXPECT_EQ(without_time(capture.lines()[0]), "warning gpu lost gpu=0 xid=79");
  const std::string time = capture.lines()[0].substr(8, 24);
  EXPECT_EQ(time.size(), 24U);
  EXPECT_EQ(time[10], 'T');
  EXPECT_EQ(time.back(), 'Z');
}

TEST(Log, JsonIsOneObjectPerLine) {
  const LogCapture capture(LogLevel::kInfo, LogFormat::kJson);
  log_error("gpu lost", {{"gpu", 0}, {"name", "a \"b\"\\"}, {"seen", true}, {"left", gib(10)}});
  ASSERT_EQ(capture.lines().size(), 1U);
  EXPECT_EQ(without_time(capture.lines()[0]),
            R"({"level":"error","message":"gpu lost","gpu":0,"name":"a \"b\"\\","seen":true,)"
            R"("left":"10GiB"})");
}

TEST(Log, ValuesCannotForgeLinesOrMoveTheCursor) {
  const std::string evil = "x\nerror forged\x1b[2J";
  {
    const LogCapture capture;
    log_info("tenant " + evil, {{"name", evil}});
    ASSERT_EQ(capture.lines().size(), 1U);
    const std::string line = capture.lines()[0];
    EXPECT_TRUE(std::ranges::none_of(line, [](char c) { return c < 0x20; })) << line;
    EXPECT_EQ(without_time(line),
              R"(info tenant x\nerror forged\x1b[2J name="x\nerror forged\x1b[2J")");
  }
  const LogCapture capture(LogLevel::kInfo, LogFormat::kJson);
  log_info("tenant", {{"name", evil + "\xFF"}});
  EXPECT_EQ(without_time(capture.lines()[0]),
            R"({"level":"info","message":"tenant","name":"x\u000aerror forged\u001b[2J\ufffd"})");
}

TEST(Log, AmbiguousTextValuesAreQuoted) {
  const LogCapture capture;
  log_info("m", {{"a", ""}, {"b", "x=y"}, {"c", "say \"hi\""}});
  EXPECT_EQ(without_time(capture.lines()[0]), R"(info m a="" b="x=y" c="say \"hi\"")");
}

TEST(Log, BracesAndPercentSignsAreOnlyText) {
  const LogCapture capture;
  log_info("{} {:d} %v %n", {{"key", "{0} %s"}});
  EXPECT_EQ(without_time(capture.lines()[0]), R"(info {} {:d} %v %n key="{0} %s")");
}

TEST(Log, LevelsBelowTheOneSetAreLeftOut) {
  const LogCapture capture(LogLevel::kWarning);
  log_debug("no");
  log_info("no");
  log_warning("yes");
  log_error("yes too");
  log(LogLevel::kOff, "never");
  EXPECT_EQ(capture.lines().size(), 2U);
  EXPECT_FALSE(capture.contains("no"));
  EXPECT_TRUE(capture.contains("yes too"));
}

TEST(Log, CaptureGivesEverythingBack) {
  configure_log(LogLevel::kError, LogFormat::kText);
  {
    const LogCapture capture(LogLevel::kDebug, LogFormat::kJson);
  }
  EXPECT_EQ(log_level(), LogLevel::kError);
  testing::internal::CaptureStderr();
  log_error("to standard error");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("to standard error\n"), std::string::npos);
  configure_log(LogLevel::kInfo, LogFormat::kText);
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  const LogCapture capture;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 100; ++i) log_info("tick", {{"thread", thread}, {"i", i}});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(capture.lines().size(), 400U);
  for (const auto& line : capture.lines()) {
    EXPECT_TRUE(without_time(line).starts_with("info tick thread=")) << line;
  }
}

TEST(Log, LevelsAreReadByName) {
  EXPECT_EQ(parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level(" DEBUG "), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("warnin").error().message,
            "there is no log level \"warnin\" (did you mean warning?); write debug, info, warning, "
            "error or off");
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kOff}) {
    EXPECT_EQ(parse_log_level(to_string(level)), level);
  }
}

}  // namespace
}  // namespace divvy
