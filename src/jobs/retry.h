// How long a job that failed waits before it is tried again. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "model/job_spec.h"

namespace divvy::jobs {

// After so many failures (1: the first); nothing when it is not tried again.
[[nodiscard]] std::optional<model::Seconds> retry_pause(const model::RetryPolicy& policy,
                                                        std::uint32_t failures);

}  // namespace divvy::jobs
