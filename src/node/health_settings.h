// What an operator can set about health. One table of names, for the command line and for the
// configuration file. Plain values, callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "node/health.h"

namespace divvy::node {

// What becomes of the tenants on a GPU that is quarantined.
enum class OnFailure : std::uint8_t { kKeep, kEnd };

struct HealthSettings {
  HealthPolicy policy;
  Duration sample_interval = std::chrono::seconds(1);
  // Of a GPU on which nothing has run for a while.
  Duration idle_interval = std::chrono::seconds(5);
  // A GPU that says nothing for so long after it should have is suspect, after twice that
  // quarantined.
  Duration answer_time = std::chrono::seconds(10);
  Duration probe_time = std::chrono::seconds(30);
  OnFailure on_failure = OnFailure::kKeep;
  // Between SIGTERM and SIGKILL.
  Duration grace_time = std::chrono::seconds(30);
};

// "250ms", "10s", "5m" or "1h"; not negative.
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);

[[nodiscard]] std::vector<std::string> health_setting_names();
// As in "sample_interval" "500ms". kInvalidArgument says what would be right.
[[nodiscard]] Status set_health(HealthSettings& settings, std::string_view name,
                                std::string_view value);

}  // namespace divvy::node
