#include "gpuload/schedule.h"

#include <time.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>

#include "base/text.h"
#include "gpuload/session.h"

namespace divvy::gpuload {
namespace {

constexpr double kLongestSeconds = 86'400;
constexpr size_t kMostSpans = 10'000;

std::optional<uint64_t> nanoseconds(std::string_view seconds) {
  double value = 0;
  const auto [stopped, error] = std::from_chars(seconds.begin(), seconds.end(), value);
  if (error != std::errc{} || stopped != seconds.end() || !std::isfinite(value) || value < 0 ||
      value > kLongestSeconds) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(std::llround(value * 1e9));
}

std::optional<Span> parse_span(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto from = nanoseconds(text.substr(0, colon));
  const auto until = nanoseconds(text.substr(colon + 1));
  if (!from || !until || *from >= *until) return std::nullopt;
  return Span{*from, *until};
}

}  // namespace

Schedule Schedule::for_seconds(double seconds) {
  return Schedule({Span{0, static_cast<uint64_t>(seconds * 1e9)}});
}

Result<Schedule> Schedule::parse(std::string_view text) {
  std::vector<Span> spans;
  for (const std::string_view piece : split(text, ',')) {
    const auto span = parse_span(piece);
    if (!span) {
      return err(ErrorCode::kInvalidArgument,
                 "\"{}\" is no span of time; write FROM:UNTIL in seconds, as in 0:5,8:20.5",
                 escape_for_terminal(piece));
    }
    if (!spans.empty() && span->from_ns < spans.back().until_ns) {
      return err(ErrorCode::kInvalidArgument, "the span {} begins before the one before it ends",
                 piece);
    }
    if (spans.size() == kMostSpans) {
      return err(ErrorCode::kOutOfRange, "a schedule has at most {} spans", kMostSpans);
    }
    spans.push_back(*span);
  }
  return Schedule(std::move(spans));
}

std::optional<uint64_t> Schedule::next_work(uint64_t elapsed_ns) const {
  for (const Span& span : spans_) {
    if (elapsed_ns < span.until_ns) return std::max(elapsed_ns, span.from_ns);
  }
  return std::nullopt;
}

uint64_t start_moment(std::string_view text) {
  if (text == "now") return monotonic_ns() + 1'000'000;
  std::string line(text);
  if (text == "-") {
    std::fputs("ready\n", stderr);
    if (!std::getline(std::cin, line)) {
      throw std::runtime_error("standard input ended before it named the start moment");
    }
  }
  uint64_t moment = 0;
  const auto [stopped, error] = std::from_chars(line.data(), line.data() + line.size(), moment);
  if (error != std::errc{} || stopped != line.data() + line.size()) {
    throw std::runtime_error("the start moment \"" + escape_for_terminal(line) +
                             "\" is no number of nanoseconds");
  }
  return moment;
}

void sleep_until(uint64_t at_ns) {
  timespec when{};
  when.tv_sec = static_cast<time_t>(at_ns / 1'000'000'000ULL);
  when.tv_nsec = static_cast<long>(at_ns % 1'000'000'000ULL);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

}  // namespace divvy::gpuload
