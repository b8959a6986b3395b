// Moments as Kubernetes writes them: "2026-01-01T00:00:00Z", with or without a fraction. Pure; any
// bytes are safe to read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace divvy::kube {

[[nodiscard]] std::optional<WallTime> read_time_stamp(std::string_view text);
// In whole seconds, as most fields have it.
[[nodiscard]] std::string time_stamp(WallTime at);

}  // namespace divvy::kube
