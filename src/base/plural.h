// "1 job", "2 jobs": numbers with what they count, in words of people.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace divvy {

[[nodiscard]] inline std::string counted(std::uint64_t number, std::string_view one,
                                         std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

// With an s for all but one.
[[nodiscard]] inline std::string counted(std::uint64_t number, std::string_view one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

}  // namespace divvy
