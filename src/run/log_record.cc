#include "run/log_record.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>

#include "base/time_text.h"

namespace divvy::run {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::string_view kTimeForm = "dddd-dd-ddTdd:dd:dd.dddddddddZ";

std::optional<int> digits(std::string_view text) {
  int value = 0;
  for (const char c : text) value = value * 10 + (c - '0');
  return value;
}

bool has_form(std::string_view text, std::string_view form) {
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool fits = form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    if (!fits) return false;
  }
  return true;
}

std::optional<WallTime> parse_time(std::string_view text) {
  if (!has_form(text, kTimeForm)) return std::nullopt;
  const auto part = [text](std::size_t at, std::size_t size) {
    return *digits(text.substr(at, size));
  };
  const std::chrono::year_month_day date{std::chrono::year(part(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(part(8, 2)))};
  // What nanoseconds since 1970 can count in 64 bits.
  if (!date.ok() || part(0, 4) < 1970 || part(0, 4) > 2261) return std::nullopt;
  if (part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 59) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + hours(part(11, 2)) + minutes(part(14, 2)) +
         seconds(part(17, 2)) + Duration(part(20, 9));
}

constexpr std::array<LogStream, 3> kStreams = {LogStream::kStdout, LogStream::kStderr,
                                               LogStream::kDivvy};

}  // namespace

std::string_view to_string(LogStream stream) {
  switch (stream) {
    case LogStream::kStdout:
      return "stdout";
    case LogStream::kStderr:
      return "stderr";
    case LogStream::kDivvy:
      break;
  }
  return "divvy";
}

std::string to_text(const LogRecord& record) {
  return fmt::format("{} {} {} {}\n", time_text(record.at), to_string(record.stream),
                     record.whole ? 'F' : 'P', record.bytes);
}

std::optional<LogRecord> parse_log_record(std::string_view line) {
  if (line.size() < kTimeForm.size()) return std::nullopt;
  const auto at = parse_time(line.substr(0, kTimeForm.size()));
  if (!at) return std::nullopt;
  line.remove_prefix(kTimeForm.size());
  for (const LogStream stream : kStreams) {
    const std::string start = fmt::format(" {} ", to_string(stream));
    if (!line.starts_with(start)) continue;
    line.remove_prefix(start.size());
    if (line.size() < 2 || (line[0] != 'F' && line[0] != 'P') || line[1] != ' ') break;
    return LogRecord{*at, stream, line[0] == 'F', line.substr(2)};
  }
  return std::nullopt;
}

}  // namespace divvy::run
