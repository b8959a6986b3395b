#include "node/health_settings.h"

#include <gtest/gtest.h>

namespace divvy::node {
namespace {

TEST(HealthSettings, ReadsTimes) {
  EXPECT_EQ(parse_duration("250ms"), std::chrono::milliseconds(250));
  EXPECT_EQ(parse_duration(" 10s "), std::chrono::seconds(10));
  EXPECT_EQ(parse_duration("5m"), std::chrono::minutes(5));
  EXPECT_EQ(parse_duration("1h"), std::chrono::hours(1));
  for (const char* text : {"", "s", "10", "-1s", "1.5s", "10 s", "1d", "99999999999h", "1h1m"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(HealthSettings, SetsByName) {
  HealthSettings settings;
  EXPECT_TRUE(set_health(settings, "sample_interval", "50ms"));
  EXPECT_TRUE(set_health(settings, "quarantine_time", "3s"));
  EXPECT_TRUE(set_health(settings, "probation_probes", "2"));
  EXPECT_TRUE(set_health(settings, "on_failure", "end"));
  EXPECT_EQ(settings.sample_interval, std::chrono::milliseconds(50));
  EXPECT_EQ(settings.policy.quarantine_time, std::chrono::seconds(3));
  EXPECT_EQ(settings.policy.probation_probes, 2U);
  EXPECT_EQ(settings.on_failure, OnFailure::kEnd);
}

TEST(HealthSettings, SaysWhatWouldBeRight) {
  HealthSettings settings;
  const auto message = [&](const char* name, const char* value) {
    const Status set = set_health(settings, name, value);
    return set ? std::string() : set.error().message;
  };
  EXPECT_NE(message("sample_intervall", "1s").find("did you mean sample_interval?"),
            std::string::npos);
  EXPECT_EQ(message("on_failure", "kill"), "on_failure: is keep or end");
  EXPECT_EQ(message("strikes", "0"), "strikes: needs a number from 1 to 1000");
  EXPECT_NE(message("hot_time", "warm").find("10s"), std::string::npos);
}

}  // namespace
}  // namespace divvy::node
