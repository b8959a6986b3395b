// A number of things in words. Pure, callable from any thread.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace divvy {

// "1 job", "2 jobs". `things` is for words whose plural has more than an "s".
[[nodiscard]] std::string counted(std::integral auto count, std::string_view thing,
                                  std::string_view things = {}) {
  if (count == 1) return fmt::format("{} {}", count, thing);
  return things.empty() ? fmt::format("{} {}s", count, thing) : fmt::format("{} {}", count, things);
}

}  // namespace divvy
