// How a GPU is doing, as the daemon judges it and tells everybody else. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "model/gpu_uuid.h"

namespace divvy::node {

// healthy -> suspect -> quarantined -> probation -> healthy; docs/health.md has the arrows.
enum class HealthState : std::uint8_t { kHealthy, kSuspect, kQuarantined, kProbation };

[[nodiscard]] constexpr std::string_view to_string(HealthState state) {
  switch (state) {
    case HealthState::kHealthy:
      return "healthy";
    case HealthState::kSuspect:
      return "suspect";
    case HealthState::kQuarantined:
      return "quarantined";
    case HealthState::kProbation:
      return "probation";
  }
  return "unknown";
}

struct GpuHealth {
  model::GpuUuid uuid;
  HealthState state = HealthState::kHealthy;
  std::string reason;     // Empty while healthy
  WallTime since;         // Of the state
  bool cordoned = false;  // An operator said: no new work
  bool draining = false;  // And the present work is to end
  std::string cordon_reason = {};
};

}  // namespace divvy::node
