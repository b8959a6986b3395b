// Amounts of memory that somebody types for a program. Pure, callable from any thread; any text is
// safe to pass.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace divvy {

// parse_bytes(), except that a number below 1024 without a unit is refused with the unit that was
// probably meant: "10" is 10GiB to whoever types it and 10 bytes to nobody.
[[nodiscard]] Result<Bytes> parse_memory(std::string_view text);

}  // namespace divvy
