#include "base/log.h"

// Compiled in: Debian has both libraries only as shared objects, and our programs carry what they
// need.
#ifndef SPDLOG_HEADER_ONLY
#define SPDLOG_HEADER_ONLY
#endif
#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>

#include "base/check.h"
#include "base/text.h"

namespace divvy {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames{"debug", "info", "warning", "error", "off"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

std::string_view pattern(LogFormat format) {
  return format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})"
                                    : "%l %Y-%m-%dT%H:%M:%S.%eZ %v";
}

std::unique_ptr<spdlog::formatter> formatter(LogFormat format) {
  return std::make_unique<spdlog::pattern_formatter>(std::string(pattern(format)),
                                                     spdlog::pattern_time_type::utc, "\n");
}

// Writes to standard error, or to a LogCapture while there is one.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void capture_into(LogCapture* capture) {
    const std::scoped_lock lock(mutex_);
    capture_ = capture;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (capture_ != nullptr) {
      capture_->take(std::string_view(line.data(), line.size()));
    } else {
      // One call per line, so that lines of processes that share the stream do not mix.
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  }
  void flush_() override { std::fflush(stderr); }

  LogCapture* capture_ = nullptr;
};

struct Log {
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  spdlog::logger logger{"divvy", sink};
  std::atomic<LogLevel> level{LogLevel::kInfo};
  std::atomic<LogFormat> format{LogFormat::kText};

  Log() { configure(LogLevel::kInfo, LogFormat::kText); }

  void configure(LogLevel new_level, LogFormat new_format) {
    level = new_level;
    format = new_format;
    logger.set_level(to_spdlog(new_level));
    sink->set_formatter(formatter(new_format));
  }
};

Log& the_log() {
  // Never destroyed, so that threads which still run while the process exits can log.
  static Log* const log = new Log;
  return *log;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto point = first_code_point(text);
    const auto value = static_cast<std::uint32_t>(point ? point->value : 0xFFFD);
    const std::size_t size = point ? point->size : 1;
    if (value == '"' || value == '\\') {
      out += '\\';
      out += static_cast<char>(value);
    } else if (!point || value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0x2028 ||
               value == 0x2029) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  out += '"';
}

// Bare where that is unambiguous, else in quotes.
void append_text_value(std::string& out, std::string_view text) {
  const std::string safe = escape_for_terminal(text);
  const bool bare = !safe.empty() && safe.find_first_of(" =\"") == std::string::npos;
  if (bare) {
    out += safe;
    return;
  }
  out += '"';
  for (const char c : safe) {
    if (c == '"') out += '\\';
    out += c;
  }
  out += '"';
}

std::string json_line(std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = R"("message":)";
  append_json_string(line, message);
  for (const LogField& field : fields) {
    line += ',';
    append_json_string(line, field.key());
    line += ':';
    if (field.bare()) {
      line += field.value();
    } else {
      append_json_string(line, field.value());
    }
  }
  return line;
}

std::string text_line(std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = escape_for_terminal(message);
  for (const LogField& field : fields) {
    line += ' ';
    line += escape_for_terminal(field.key());
    line += '=';
    append_text_value(line, field.value());
  }
  return line;
}

}  // namespace

std::string_view to_string(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

Result<LogLevel> parse_log_level(std::string_view text) {
  const auto* const found = std::ranges::find(kLevelNames, to_lower(trim(text)));
  if (found != kLevelNames.end()) return static_cast<LogLevel>(found - kLevelNames.begin());
  const auto meant = did_you_mean(text, std::span<const std::string_view>(kLevelNames));
  return err(ErrorCode::kInvalidArgument,
             "there is no log level \"{}\"{}; write debug, info, warning, error or off",
             escape_for_terminal(text.substr(0, 40)),
             meant ? " (did you mean " + *meant + "?)" : "");
}

void configure_log(LogLevel level, LogFormat format) { the_log().configure(level, format); }

LogLevel log_level() { return the_log().level; }

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  Log& log = the_log();
  const auto spdlog_level = to_spdlog(level);
  if (level == LogLevel::kOff || !log.logger.should_log(spdlog_level)) return;
  const bool json = log.format == LogFormat::kJson;
  const std::string line = json ? json_line(message, fields) : text_line(message, fields);
  // As a view, because spdlog would take a string for a format and look for braces in it.
  log.logger.log(spdlog_level, spdlog::string_view_t(line));
}

LogCapture::LogCapture(LogLevel level, LogFormat format)
    : level_before_(the_log().level), format_before_(the_log().format) {
  the_log().configure(level, format);
  the_log().sink->capture_into(this);
}

LogCapture::~LogCapture() {
  the_log().sink->capture_into(nullptr);
  the_log().configure(level_before_, format_before_);
}

std::vector<std::string> LogCapture::lines() const {
  const std::scoped_lock lock(mutex_);
  return lines_;
}

bool LogCapture::contains(std::string_view piece) const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(
      lines_, [piece](const std::string& line) { return line.find(piece) != std::string::npos; });
}

void LogCapture::take(std::string_view line) {
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const std::scoped_lock lock(mutex_);
  lines_.emplace_back(line);
}

}  // namespace divvy
