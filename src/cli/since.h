// Times as people type them after --since: how long ago, or a moment. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::cli {

// "30m" or "2d" before `now`, or "2026-11-15T08:00:00Z" or "2026-11-15"; as milliseconds since
// 1970.
[[nodiscard]] Result<std::int64_t> parse_since(std::string_view text, WallTime now);

}  // namespace divvy::cli
