// What an operator can set about health (docs/configuration.md). Plain values.
#pragma once

#include <cstdint>
#include "base/clock.h"
#include "health/health.h"

namespace divvy::health {

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

}  // namespace divvy::health
