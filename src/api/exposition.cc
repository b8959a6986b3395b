#include "api/exposition.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/text.h"

namespace divvy::api {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Backslash and line end everywhere, the quote where there are quotes around.
void append_escaped(std::string& to, std::string_view value, bool quoted) {
  while (!value.empty()) {
    const char c = value.front();
    if (c == '\\') {
      to += "\\\\";
    } else if (c == '\n') {
      to += "\\n";
    } else if (c == '"' && quoted) {
      to += "\\\"";
    } else if (static_cast<unsigned char>(c) < 0x80) {
      to += c;
    } else if (const auto point = first_code_point(value)) {
      to += value.substr(0, point->size);
      value.remove_prefix(point->size);
      continue;
    } else {
      to += kReplacement;
    }
    value.remove_prefix(1);
  }
}

std::string_view word_for(Exposition::Type type) {
  switch (type) {
    case Exposition::Type::kGauge:
      return "gauge";
    case Exposition::Type::kCounter:
      return "counter";
    case Exposition::Type::kHistogram:
      return "histogram";
  }
  return "untyped";
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// The ends of the buckets as they stand in "le", written once.
const std::array<std::string, kBucketEndsNs.size() + 1>& bucket_ends() {
  static const auto ends = [] {
    std::array<std::string, kBucketEndsNs.size() + 1> result;
    for (std::size_t i = 0; i < kBucketEndsNs.size(); ++i) {
      result[i] = fmt::format("{}", seconds(kBucketEndsNs[i]));
    }
    result.back() = "+Inf";
    return result;
  }();
  return ends;
}

}  // namespace

Labels& Labels::add(std::string_view name, std::string_view value) {
  if (!text_.empty()) text_ += ',';
  text_ += name;
  text_ += "=\"";
  append_escaped(text_, value, true);
  text_ += '"';
  return *this;
}

void Exposition::begin(std::string_view name, Type type, std::string_view help) {
  DIVVY_CHECK(names_.emplace(name).second, "the metric {} was written twice", name);
  name_ = name;
  heading_ = fmt::format("# HELP {} ", name);
  append_escaped(heading_, help, false);
  heading_ += fmt::format("\n# TYPE {} {}\n", name, word_for(type));
}

void Exposition::open_line(std::string_view suffix, std::string_view labels,
                           std::string_view bucket_end) {
  text_ += heading_;
  heading_.clear();
  text_ += name_;
  text_ += suffix;
  if (labels.empty() && bucket_end.empty()) return;
  text_ += '{';
  text_ += labels;
  if (!bucket_end.empty()) {
    text_ += labels.empty() ? "le=\"" : ",le=\"";
    text_ += bucket_end;
    text_ += '"';
  }
  text_ += '}';
}

void Exposition::close_line(std::uint64_t value) {
  const fmt::format_int digits(value);
  text_ += ' ';
  text_.append(digits.data(), digits.size());
  text_ += '\n';
}

void Exposition::close_line(double value) {
  if (std::isnan(value)) {
    text_ += " NaN\n";
  } else if (std::isinf(value)) {
    text_ += value > 0 ? " +Inf\n" : " -Inf\n";
  } else {
    fmt::format_to(std::back_inserter(text_), " {}\n", value);
  }
}

void Exposition::add(const Labels& labels, std::uint64_t value) {
  open_line("", labels.text(), "");
  close_line(value);
}

void Exposition::add(const Labels& labels, double value) {
  open_line("", labels.text(), "");
  close_line(value);
}

void Exposition::add(const Labels& labels, const DurationCounts& counts) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.buckets.size(); ++i) {
    total += counts.buckets[i];
    open_line("_bucket", labels.text(), bucket_ends()[i]);
    close_line(total);
  }
  open_line("_sum", labels.text(), "");
  close_line(seconds(counts.sum_ns));
  open_line("_count", labels.text(), "");
  close_line(total);
}

void Exposition::add(const Labels& labels, std::span<const std::uint32_t> ends,
                     std::span<const std::uint64_t> counts, double sum) {
  DIVVY_CHECK(counts.size() == ends.size() + 1, "{} has buckets that do not fit", name_);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    open_line("_bucket", labels.text(), i < ends.size() ? fmt::to_string(ends[i]) : "+Inf");
    close_line(total);
  }
  open_line("_sum", labels.text(), "");
  close_line(sum);
  open_line("_count", labels.text(), "");
  close_line(total);
}

}  // namespace divvy::api
