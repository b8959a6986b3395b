// A whole number as people write it in labels and annotations. Pure.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace divvy::kube {

// All of the text, in decimal. Nothing: it is no number, or does not fit.
template <std::integral Number>
[[nodiscard]] std::optional<Number> parse_whole_number(std::string_view text) {
  Number number{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace divvy::kube
