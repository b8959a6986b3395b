// One record of a member's output as it is on the disk, in the form that container runtimes use:
//
//   2026-01-01T00:00:00.000000000Z stdout F a whole line
//   2026-01-01T00:00:00.100000000Z stderr P the beginning of a li
//
// The bytes are the member's own and may be any but a line end. Pure functions, callable from any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace divvy::run {

enum class LogStream {
  kStdout,
  kStderr,
  kDivvy,  // what is said about the member, not by it
};
[[nodiscard]] std::string_view to_string(LogStream stream);

struct LogRecord {
  WallTime at;
  LogStream stream = LogStream::kStdout;
  bool whole = true;       // false: the line goes on in the next record of this stream
  std::string_view bytes;  // without the line end
};

// With its line end.
[[nodiscard]] std::string to_text(const LogRecord& record);
// A line without its line end; nothing when it is not such a record. The bytes point into `line`.
[[nodiscard]] std::optional<LogRecord> parse_log_record(std::string_view line);

}  // namespace divvy::run
