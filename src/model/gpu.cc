#include "model/gpu.h"

#include <fmt/format.h>

namespace divvy::model {

std::string to_string(ComputeCapability capability) {
  return fmt::format("{}.{}", capability.major, capability.minor);
}

std::string_view to_string(MigMode mode) {
  switch (mode) {
    case MigMode::kUnsupported:
      return "unsupported";
    case MigMode::kDisabled:
      return "disabled";
    case MigMode::kEnabled:
      return "enabled";
  }
  return "unknown";
}

std::string_view to_string(HealthState state) {
  switch (state) {
    case HealthState::kHealthy:
      return "healthy";
    case HealthState::kSuspect:
      return "suspect";
    case HealthState::kQuarantined:
      return "quarantined";
    case HealthState::kProbation:
      return "probation";
    case HealthState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

bool accepts_new_work(HealthState state) { return state != HealthState::kQuarantined; }

std::optional<Bytes> memory_free(const Gpu& gpu) {
  if (!gpu.memory_total || !gpu.memory_used) return std::nullopt;
  return saturating_sub(saturating_sub(*gpu.memory_total, *gpu.memory_used),
                        gpu.memory_reserved.value_or(Bytes(0)));
}

}  // namespace divvy::model
