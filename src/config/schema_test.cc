#include "config/schema.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <fstream>
#include <iterator>
#include <set>

#include "config/config_file.h"

namespace divvy::config {
namespace {

TEST(Schema, EverySettingStandsInASectionAndOnlyOnce) {
  std::set<std::string> seen;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(seen.insert(setting.path()).second) << setting.path();
    const auto same_name = [&](const Section& section) { return section.name == setting.section; };
    EXPECT_TRUE(std::ranges::any_of(sections(), same_name)) << setting.path();
    EXPECT_TRUE(setting.meaning.ends_with('.')) << setting.path();
  }
  for (const Section& section : sections()) {
    EXPECT_FALSE(settings_of(section.name).empty()) << section.name;
  }
}

// What --print-config writes is a right file, and means what it was written from.
TEST(Schema, WhatIsWrittenReadsBackAsTheSame) {
  DaemonConfig config;
  config.folders.run = "/a folder with \"quotes\"";
  config.log.level = LogLevel::kWarning;
  config.socket = {0640, "gpu-users"};
  config.metrics = {"[::1]:9400", std::chrono::seconds(90), true};
  config.sharing.mode = SharingMode::kMps;
  config.health.sample_interval = std::chrono::milliseconds(1500);
  config.health.on_failure = OnFailure::kEnd;
  config.sign_in.issuer = "https://id.example:8443/realms/lab";
  config.sign_in.name = "The lab's \"single\" sign-on";
  config.sign_in.allowed_groups = {"/gpu users", "ops"};
  config.cdi.folder = "/one";
  config.privileges.keep = {"SYS_ADMIN"};
  for (const DaemonConfig& wanted : {DaemonConfig(), config}) {
    const ReadConfig read = read_config(write_config(wanted));
    for (const Problem& problem : read.problems) {
      ADD_FAILURE() << problem_line("printed", problem);
    }
    for (const Setting& setting : settings()) {
      EXPECT_EQ(setting.write(read.config), setting.write(wanted)) << setting.path();
    }
  }
}

TEST(Schema, ThePageInTheDocumentationIsTheOneOfTheTable) {
  std::ifstream file(DIVVY_CONFIGURATION_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == configuration_page())
      << "docs/configuration.md is not what the table says; write it anew with\n"
         "  divvyd --print-config-page > docs/configuration.md";
}

}  // namespace
}  // namespace divvy::config
