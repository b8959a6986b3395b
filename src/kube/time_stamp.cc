#include "kube/time_stamp.h"

#include <fmt/format.h>

#include <charconv>

namespace divvy::kube {
namespace {

// All digits, and as many as there are.
std::optional<int> digits(std::string_view text) {
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number;
}

// "Z" or "+02:00", as minutes.
std::optional<int> offset_of(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = digits(text.substr(1, 2));
  const auto minutes = digits(text.substr(4, 2));
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const int offset = *hours * 60 + *minutes;
  return text[0] == '-' ? -offset : offset;
}

}  // namespace

std::optional<WallTime> read_time_stamp(std::string_view text) {
  constexpr std::string_view kPattern = "0000-00-00T00:00:00";
  if (text.size() <= kPattern.size()) return std::nullopt;
  for (const std::size_t i : {4UL, 7UL, 10UL, 13UL, 16UL}) {
    if (text[i] != kPattern[i]) return std::nullopt;
  }
  const auto year = digits(text.substr(0, 4));
  const auto month = digits(text.substr(5, 2));
  const auto day = digits(text.substr(8, 2));
  const auto hour = digits(text.substr(11, 2));
  const auto minute = digits(text.substr(14, 2));
  const auto second = digits(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  // Nanoseconds in 64 bits reach no further.
  if (*year < 1900 || *year > 2200) return std::nullopt;

  std::string_view rest = text.substr(kPattern.size());
  std::int64_t nanoseconds = 0;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    std::size_t count = 0;
    while (count < rest.size() && rest[count] >= '0' && rest[count] <= '9') ++count;
    if (count == 0 || count > 9) return std::nullopt;
    nanoseconds = *digits(rest.substr(0, count));
    for (std::size_t i = count; i < 9; ++i) nanoseconds *= 10;
    rest.remove_prefix(count);
  }
  const auto offset = offset_of(rest);
  if (!offset) return std::nullopt;
  return WallTime(std::chrono::sys_days(date).time_since_epoch()) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute - *offset) + std::chrono::seconds(*second) +
         std::chrono::nanoseconds(nanoseconds);
}

std::string time_stamp(WallTime at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(at - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

}  // namespace divvy::kube
