// The log of a process: one line per event, with a fixed message and the changing parts as fields.
//
//   log_info("gpu lost", {{"gpu", 0}, {"xid", 79}});
//
// text:  warning 2026-01-01T00:00:00.000Z gpu lost gpu=0 xid=79
// json:  {"time":"2026-01-01T00:00:00.000Z","level":"warning","message":"gpu
// lost","gpu":0,"xid":79}
//
// Lines go to standard error. Control characters and line ends in messages and values are escaped,
// so a tenant that picks its own name cannot forge a line. Every function may be called from any
// thread.
#pragma once

#include <concepts>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

[[nodiscard]] std::string_view to_string(LogLevel level);
// "debug", "info", "warning", "error" or "off".
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

// One key and its value. Numbers and booleans stay bare in JSON; everything else is a string.
class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  LogField(std::string_view key, const char* value) : key_(key), value_(value) {}
  LogField(std::string_view key, bool value)
      : key_(key), value_(value ? "true" : "false"), bare_(true) {}
  LogField(std::string_view key, std::integral auto value)
      : key_(key), value_(fmt::to_string(value)), bare_(true) {}
  // Ids, quantities and whatever else knows how to print itself.
  template <typename T>
    requires(!std::integral<T> && !std::convertible_to<const T&, std::string_view> &&
             fmt::is_formattable<T>::value)
  LogField(std::string_view key, const T& value) : key_(key), value_(fmt::format("{}", value)) {}

  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const std::string& value() const { return value_; }
  [[nodiscard]] bool bare() const { return bare_; }

 private:
  std::string key_;
  std::string value_;
  bool bare_ = false;
};

// Until this is called: level info, format text.
void configure_log(LogLevel level, LogFormat format);
[[nodiscard]] LogLevel log_level();

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kDebug, message, fields);
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kInfo, message, fields);
}
inline void log_warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kWarning, message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kError, message, fields);
}

// Takes the log away from standard error and keeps the finished lines while it lives. For tests.
// One at a time in a process; the level and format of before come back when it goes.
class LogCapture {
 public:
  explicit LogCapture(LogLevel level = LogLevel::kDebug, LogFormat format = LogFormat::kText);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Every line so far, without its line end.
  [[nodiscard]] std::vector<std::string> lines() const;
  [[nodiscard]] bool contains(std::string_view piece) const;

  // Called by the log with one finished line.
  void take(std::string_view line);

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogLevel level_before_;
  LogFormat format_before_;
};

}  // namespace divvy
