// A moment as text, exact and in an order that sorts: "2026-01-01T00:00:00.000000000Z". Pure,
// callable from any thread.
#pragma once

#include <string>

#include "base/clock.h"

namespace divvy {

[[nodiscard]] std::string time_text(WallTime at);

}  // namespace divvy
