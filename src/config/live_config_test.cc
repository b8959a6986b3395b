#include "config/live_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Live : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "divvyd.yaml"; }
  void write(std::string_view text) const { std::ofstream(file()) << text; }
  LiveConfig start(LiveConfig::Override before_file = {}) const {
    auto live = LiveConfig::create(file(), {}, std::move(before_file));
    EXPECT_TRUE(live) << live.error().message;
    return *std::move(live);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Live, AReloadPassesOnWhatChanged) {
  write("log: {level: info}\n");
  LiveConfig live = start();
  std::vector<LogLevel> applied;
  live.on_change([&](const DaemonConfig& config) { applied.push_back(config.log.level); });

  EXPECT_THAT(live.reload()->changed, IsEmpty());
  EXPECT_THAT(applied, IsEmpty());

  write("log: {level: debug}\nsharing: {mode: mps}\n");
  const auto reloaded = live.reload();
  ASSERT_TRUE(reloaded) << reloaded.error().message;
  EXPECT_THAT(reloaded->changed,
              ElementsAre("log.level: info -> debug", "sharing.mode: timeslice -> mps"));
  EXPECT_THAT(applied, ElementsAre(LogLevel::kDebug));

  // What is taken out of the file has its default again.
  write("");
  EXPECT_THAT(live.reload()->changed,
              ElementsAre("log.level: debug -> info", "sharing.mode: mps -> timeslice"));
}

TEST_F(Live, AWrongFileChangesNothingAndEveryProblemIsLogged) {
  write("log: {level: warning}\n");
  LiveConfig live = start();
  bool applied = false;
  live.on_change([&](const DaemonConfig&) { applied = true; });
  write("log: {level: debug, jsno: true}\nfolders: {run: x}\n");
  const LogCapture log;
  EXPECT_FALSE(live.reload_and_log());
  EXPECT_TRUE(log.contains("did you mean json?"));
  EXPECT_TRUE(log.contains("folders.run: a folder begins with"));
  EXPECT_FALSE(applied);
  EXPECT_EQ(live.now().log.level, LogLevel::kWarning);
}

TEST_F(Live, WhatNeedsARestartIsNamedAndKeepsItsValue) {
  write("");
  LiveConfig live = start();
  write("folders: {run: /elsewhere}\nlog: {level: error}\n");
  const LogCapture log;
  EXPECT_TRUE(live.reload_and_log());
  EXPECT_TRUE(log.contains("folders.run needs a restart"));
  EXPECT_EQ(live.now().folders.run, "/run/divvy");
  EXPECT_EQ(live.now().log.level, LogLevel::kError);
  // Still, as long as it is so.
  EXPECT_THAT(live.reload()->need_restart, ElementsAre("folders.run"));
}

TEST_F(Live, TheCommandLineGoesBeforeTheFile) {
  write("log: {level: debug}\n");
  LiveConfig live = start([](DaemonConfig& config) { config.log.level = LogLevel::kError; });
  EXPECT_EQ(live.now().log.level, LogLevel::kError);
  write("log: {level: warning}\n");
  EXPECT_THAT(live.reload()->changed, IsEmpty());
}

TEST_F(Live, AFileThatWentAwayChangesNothing) {
  write("log: {level: debug}\n");
  LiveConfig live = start();
  std::filesystem::remove(file());
  EXPECT_THAT(live.reload().error().message, HasSubstr("cannot be opened"));
  EXPECT_EQ(live.now().log.level, LogLevel::kDebug);
}

}  // namespace
}  // namespace divvy::config
