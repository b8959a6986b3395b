#include "config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace divvy::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const Problem& problem : read_config(text).problems) {
    lines.push_back(problem_line("f", problem));
  }
  return lines;
}

TEST(ConfigFile, SetsWhatItNamesAndLeavesTheRest) {
  const ReadConfig read = read_config(
      "log:\n  level: warning\n  json: true\nsocket:\n  mode: 0660\n  group: gpu\n"
      "health:\n  sample_interval: 250ms\n  strikes: 5\n  on_failure: end\n"
      "cdi:\n  folder: /srv/cdi/\nmetrics:\n  address:\n"
      "privileges: {keep: [CAP_SYS_ADMIN, IPC_LOCK]}\nsharing:\n  # mode: mps\n");
  EXPECT_TRUE(read.problems.empty());
  const DaemonConfig& config = read.config;
  EXPECT_EQ(config.log.level, LogLevel::kWarning);
  EXPECT_TRUE(config.log.json);
  EXPECT_EQ(config.socket.mode, 0660U);
  EXPECT_EQ(config.socket.group, "gpu");
  EXPECT_EQ(config.health.sample_interval, std::chrono::milliseconds(250));
  EXPECT_EQ(config.health.strikes, 5U);
  EXPECT_EQ(config.health.on_failure, OnFailure::kEnd);
  EXPECT_EQ(config.cdi.folder, "/srv/cdi");
  EXPECT_EQ(config.metrics.address, "off");
  EXPECT_THAT(config.privileges.keep, ElementsAre("SYS_ADMIN", "IPC_LOCK"));
  EXPECT_EQ(config.folders.run, "/run/divvy");
  EXPECT_EQ(config.sharing.mode, SharingMode::kTimeslice);
}

// Everything at once: whoever mends a file wants to mend it once.
TEST(ConfigFile, FindsEveryProblemInOneRun) {
  EXPECT_THAT(
      problems_of("folder:\n  run: /run/divvy\n"
                  "log:\n  levle: info\n  json: yes\n"
                  "health:\n  sample_interval: 30\n  on_failure: kill\n  strikes: many\n"
                  "level: info\n"
                  "cdi: true\n"
                  "socket:\n  mode: 0999\n  mode: 0660\n"
                  "metrics:\n  address: 9400\n"
                  "privileges:\n  keep: [SYS_ADMN, KILL, [x]]\n"
                  "sharing:\n  colour: red\n"),
      ElementsAre(
          "f:1:1: there is no section \"folder\"; did you mean folders?",
          "f:4:3: there is no setting in log called \"levle\"; did you mean level?",
          "f:5:9: log.json: this must be true or false, not \"yes\"; did you mean true?",
          "f:7:20: health.sample_interval: a time needs a unit; did you mean 30s?",
          "f:8:15: health.on_failure: \"kill\" is none of keep, end",
          "f:9:12: health.strikes: this must be a whole number from 1 to 1000, not \"many\"",
          "f:10:1: there is no section \"level\"; did you mean log.level?",
          "f:11:6: cdi must have 'key: value' lines under it",
          "f:13:9: socket.mode: \"0999\" are no rights; write them in octal, like 0660",
          "f:14:3: \"mode\" is there twice; the first is in line 13",
          "f:16:12: metrics.address: an address has a colon before its port; did you mean :9400?",
          "f:18:10: privileges.keep: there is no capability \"SYS_ADMN\"; did you mean SYS_ADMIN?",
          "f:18:26: privileges.keep: this must be the name of a capability, like SYS_ADMIN, not a "
          "list",
          "f:20:3: there is no setting in sharing called \"colour\"; the known ones are mode"));
}

TEST(ConfigFile, WrongKindsAreNamed) {
  EXPECT_THAT(problems_of("log: {level: [info], json: }\nfolders: {run: divvy}\n"),
              ElementsAre("f:1:14: log.level: this must be one of debug, info, warning, error, "
                          "off, not a list",
                          HasSubstr("log.json: this must be true or false, not nothing"),
                          "f:2:16: folders.run: a folder begins with '/', which \"divvy\" does "
                          "not"));
  EXPECT_THAT(problems_of("[1, 2]"), ElementsAre(HasSubstr("must have sections")));
}

TEST(ConfigFile, WhatDoesNotGoTogetherIsNamed) {
  EXPECT_THAT(problems_of("health:\n  quarantine_time: 2h\n"),
              ElementsAre("f:2:20: health.longest_quarantine (1h) is shorter than "
                          "health.quarantine_time (2h), with which it begins"));
  EXPECT_THAT(problems_of("folders:\n  state: /run/divvy/\n"),
              ElementsAre(HasSubstr("must be two folders")));
}

TEST(ConfigFile, AddressesHaveAPort) {
  for (const char* good : {":9400", "127.0.0.1:9400", "[::1]:0", "localhost:65535", "off"}) {
    EXPECT_TRUE(problems_of(fmt::format("metrics: {{address: \"{}\"}}", good)).empty()) << good;
  }
  for (const char* bad : {"localhost", "::1:9400", ":66000", "a b:1", ":", "[::1]"}) {
    EXPECT_FALSE(problems_of(fmt::format("metrics: {{address: \"{}\"}}", bad)).empty()) << bad;
  }
}

TEST(ConfigFile, LimitsAreNamed) {
  EXPECT_THAT(problems_of("health: {sample_interval: 1ms}"),
              ElementsAre(HasSubstr("\"1ms\" is out of range: from 10ms to 168h")));
  EXPECT_THAT(problems_of("health: {hot_margin_c: 51}"), ElementsAre(HasSubstr("from 1 to 50")));
  EXPECT_THAT(problems_of("health: {probe_time: 99999999999999999999h}"),
              ElementsAre(HasSubstr("is no time")));
}

TEST(ConfigFile, OneSettingCanComeFromTheCommandLine) {
  DaemonConfig config;
  EXPECT_TRUE(set_by_text(config, "health.sample_interval=250ms"));
  EXPECT_TRUE(set_by_text(config, "health.ignored_xids=[13, 43]"));
  EXPECT_EQ(config.health.sample_interval, std::chrono::milliseconds(250));
  EXPECT_THAT(config.health.ignored_xids, ElementsAre(13, 43));
  const auto message = [&config](const char* text) {
    return set_by_text(config, text).error().message;
  };
  EXPECT_EQ(message("log.level"), "\"log.level\" is no setting; write SECTION.NAME=VALUE");
  EXPECT_EQ(message("log.levle=info"),
            "there is no setting \"log.levle\"; did you mean log.level?");
  EXPECT_TRUE(set_by_text(config, "queue.policy=topology"));
  EXPECT_EQ(config.queue.policy, PlacementPolicy::kTopology);
  EXPECT_EQ(message("queue.policy=pack"),
            "queue.policy: \"pack\" is none of divvy, bundle, spread, topology");
  EXPECT_EQ(message("health.on_failure=kill"), "health.on_failure: \"kill\" is none of keep, end");
  EXPECT_THAT(message("health.strikes=[1"), HasSubstr("health.strikes: "));
}

TEST(ConfigFile, AFileThatIsNotThereIsNamed) {
  const auto missing = load_config("/nowhere/divvyd.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/divvyd.yaml"));
  EXPECT_EQ(load_config("/").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace divvy::config
