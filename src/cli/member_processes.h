// How many processes a launcher has in each member. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace divvy::cli {

// `processes` where it is named, else one for each GPU of `gpu`, as --gpu has it, also of a part.
[[nodiscard]] Result<std::uint32_t> processes_of_member(
    const std::optional<std::string>& gpu, const std::optional<std::uint32_t>& processes);

}  // namespace divvy::cli
