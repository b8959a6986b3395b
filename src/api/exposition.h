// Writes Prometheus' text format: families of metrics, each with its help and type once, each
// sample on a line with labels that are safe whatever bytes they hold. Used by one scrape at a
// time; no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/timings.h"

namespace divvy::api {

// What the answer is called when it is sent.
constexpr std::string_view kExpositionType = "text/plain; version=0.0.4; charset=utf-8";

// Labels as they stand between the braces, escaped once and written many times. A value is any
// bytes: what is not UTF-8 becomes U+FFFD. Names are ours and right.
class Labels {
 public:
  Labels& add(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Exposition {
 public:
  enum class Type { kGauge, kCounter, kHistogram };

  // `room` is about how long the text will be: with many tenants it has megabytes.
  explicit Exposition(std::size_t room = 0) { text_.reserve(room); }

  // The samples that follow belong to this family. Once for each name; a family that gets no sample
  // is not written at all.
  void begin(std::string_view name, Type type, std::string_view help);

  void add(const Labels& labels, std::uint64_t value);
  void add(const Labels& labels, double value);
  // Seconds in the buckets of base/timings.h.
  void add(const Labels& labels, const DurationCounts& counts);
  // Other buckets: `counts` has one more than `ends`, each its own alone.
  void add(const Labels& labels, std::span<const std::uint32_t> ends,
           std::span<const std::uint64_t> counts, double sum);

  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  void open_line(std::string_view suffix, std::string_view labels, std::string_view bucket_end);
  void close_line(std::uint64_t value);
  void close_line(double value);

  std::string text_;
  std::string name_;
  std::string heading_;  // Of the family, until its first sample
  std::set<std::string, std::less<>> names_;
};

}  // namespace divvy::api
