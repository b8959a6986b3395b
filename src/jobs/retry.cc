#include "jobs/retry.h"

#include <algorithm>

namespace divvy::jobs {

std::optional<model::Seconds> retry_pause(const model::RetryPolicy& policy,
                                          std::uint32_t failures) {
  if (failures == 0 || failures > policy.most) return std::nullopt;
  model::Seconds pause = policy.pause;
  // Doubled step by step and cut off early, so that no number of failures overflows.
  for (std::uint32_t i = 1; i < failures && pause < policy.longest_pause; ++i) pause *= 2;
  return std::min(pause, policy.longest_pause);
}

}  // namespace divvy::jobs
