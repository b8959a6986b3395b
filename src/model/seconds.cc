#include "model/seconds.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/parse_error.h"

namespace divvy::model {
namespace {

constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits{
    {{'d', 86'400}, {'h', 3'600}, {'m', 60}, {'s', 1}}};

Error refused(std::string_view text, std::size_t position, std::string reason) {
  return parse_error({.text = text,
                      .position = position,
                      .as = "a time",
                      .reason = std::move(reason),
                      .example = "write it like 90s, 30m, 1h30m or 2d"});
}

}  // namespace

Result<Seconds> parse_seconds(std::string_view text) {
  std::int64_t sum = 0;
  std::size_t at = 0;
  std::size_t next_unit = 0;  // Units fall: "30m1h" is a slip
  if (text.empty()) return err(refused(text, 0, "it is empty"));
  while (at < text.size()) {
    std::uint32_t count = 0;
    const auto [end, code] =
        std::from_chars(text.data() + at, text.data() + text.size(), count, 10);
    if (code == std::errc::result_out_of_range) return err(refused(text, at, "it is too large"));
    if (code != std::errc()) return err(refused(text, at, "a number belongs here"));
    const std::size_t start = at;
    at = static_cast<std::size_t>(end - text.data());
    std::size_t unit = next_unit;
    if (at == text.size()) {
      if (start != 0) return err(refused(text, at, "a unit is missing"));
      unit = kUnits.size() - 1;
    } else {
      while (unit < kUnits.size() && kUnits[unit].first != text[at]) ++unit;
      if (unit == kUnits.size()) return err(refused(text, at, "no unit that belongs here"));
      ++at;
    }
    next_unit = unit + 1;
    sum += std::int64_t{count} * kUnits[unit].second;
  }
  return Seconds(sum);
}

std::string seconds_text(Seconds seconds) {
  DIVVY_CHECK(seconds.count() >= 0, "a time of {} s", seconds.count());
  std::string text;
  std::int64_t rest = seconds.count();
  for (const auto& [unit, size] : kUnits) {
    if (rest >= size) text += fmt::format("{}{}", rest / size, unit);
    rest %= size;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace divvy::model
