// Times as people write them in job files and on command lines: "90s", "30m", "1h30m", "2d", or a
// number of seconds. Pure, callable from any thread; any text is safe to pass.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::model {

// Longer than anything runs, and far from where time in nanoseconds would overflow.
inline constexpr Seconds kLongestTime = std::chrono::days(3660);

[[nodiscard]] Result<Seconds> parse_seconds(std::string_view text);

// Exact, reads back as the same: "1h30m", "45s", "0s". Not for negative ones.
[[nodiscard]] std::string seconds_text(Seconds seconds);

}  // namespace divvy::model
