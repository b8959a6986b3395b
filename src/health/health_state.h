// How a GPU is doing, as the daemon judges it and tells everybody else. Plain values.
#pragma once

#include <string>

#include "base/clock.h"
#include "model/gpu.h"
#include "model/gpu_uuid.h"

namespace divvy::health {

// healthy -> suspect -> quarantined -> probation -> healthy; docs/health.md has the arrows. A GPU
// that is watched is never kUnknown.
using model::HealthState;

struct GpuHealth {
  model::GpuUuid uuid;
  HealthState state = HealthState::kHealthy;
  std::string reason;     // Empty while healthy
  WallTime since;         // Of the state
  bool cordoned = false;  // An operator said: no new work
  bool draining = false;  // And the present work is to end
  std::string cordon_reason = {};
};

}  // namespace divvy::health
