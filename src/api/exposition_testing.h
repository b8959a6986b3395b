// Reads Prometheus' text format as its grammar says, for tests: what does not parse is a failure
// with the line in it. Strict: families are whole and described before their samples, no series
// comes twice, histograms add up.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace divvy::testing {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct Family {
  std::string type;
  std::string help;
  std::vector<Sample> samples;
};

class Scrape {
 public:
  explicit Scrape(std::string_view text) {
    EXPECT_TRUE(text.empty() || text.ends_with('\n')) << "the last line has no end";
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      line_ = rest_ = text.substr(0, end);
      if (!read_line()) ADD_FAILURE() << "not in the format: " << line_;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const auto& [name, family] : families) {
      EXPECT_FALSE(family.samples.empty()) << name << " has no sample";
      if (family.type == "histogram") check_histogram(name, family);
    }
  }

  std::map<std::string, Family> families;

  // The value of the one series with these labels (others do not matter); a failure when there is
  // none or more than one.
  [[nodiscard]] double value(const std::string& name,
                             const std::map<std::string, std::string>& labels = {}) const {
    std::optional<double> found;
    for (const auto& [family, content] : families) {
      for (const Sample& sample : content.samples) {
        if (sample.name != name || !holds(sample, labels)) continue;
        EXPECT_FALSE(found.has_value()) << name << " is there more than once";
        found = sample.value;
      }
    }
    EXPECT_TRUE(found.has_value()) << name << " is not there";
    return found.value_or(NAN);
  }

  [[nodiscard]] bool has(const std::string& name) const { return families.contains(name); }

 private:
  static bool holds(const Sample& sample, const std::map<std::string, std::string>& labels) {
    for (const auto& [name, value] : labels) {
      const auto found = sample.labels.find(name);
      if (found == sample.labels.end() || found->second != value) return false;
    }
    return true;
  }

  bool eat(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::string word(bool colon) {
    std::size_t size = 0;
    const auto fits = [&](char c) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      return letter || (colon && c == ':') || (size > 0 && c >= '0' && c <= '9');
    };
    while (size < rest_.size() && fits(rest_[size])) ++size;
    std::string result(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return result;
  }

  bool read_line() {
    if (eat("# HELP ")) {
      const std::string name = word(true);
      current_ = name;
      const bool fresh = families.emplace(name, Family{}).second;
      families[name].help = std::string(rest_);
      return !name.empty() && fresh && eat(" ");
    }
    if (eat("# TYPE ")) {
      const std::string name = word(true);
      if (name != current_ || !eat(" ")) return false;
      families[name].type = std::string(rest_);
      return rest_ == "gauge" || rest_ == "counter" || rest_ == "histogram";
    }
    return read_sample();
  }

  bool read_sample() {
    Sample sample;
    sample.name = word(true);
    Family& family = families[current_];
    const std::string_view suffix =
        std::string_view(sample.name).substr(std::min(current_.size(), sample.name.size()));
    const bool part = suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
    if (!sample.name.starts_with(current_) || family.type.empty()) return false;
    if (family.type == "histogram" ? !part : !suffix.empty()) return false;
    if (eat("{") && !read_labels(sample)) return false;
    if (!eat(" ") || !read_value(sample.value)) return false;
    std::string series = sample.name;
    for (const auto& [name, value] : sample.labels) series += fmt::format("\n{}={}", name, value);
    if (!series_.insert(series).second) return false;
    family.samples.push_back(std::move(sample));
    return rest_.empty();
  }

  bool read_labels(Sample& sample) {
    do {
      const std::string name = word(false);
      std::string value;
      if (name.empty() || name.starts_with("__") || !eat("=\"")) return false;
      while (!eat("\"")) {
        if (rest_.empty()) return false;
        if (eat("\\")) {
          if (eat("n")) {
            value += '\n';
          } else if (eat("\\")) {
            value += '\\';
          } else if (eat("\"")) {
            value += '"';
          } else {
            return false;
          }
          continue;
        }
        const auto point = first_code_point(rest_);
        if (!point) return false;
        value += rest_.substr(0, point->size);
        rest_.remove_prefix(point->size);
      }
      if (!sample.labels.emplace(name, value).second) return false;
    } while (eat(","));
    return eat("}");
  }

  bool read_value(double& value) {
    if (eat("+Inf")) return value = INFINITY, true;
    if (eat("-Inf")) return value = -INFINITY, true;
    if (eat("NaN")) return value = NAN, true;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return code == std::errc();
  }

  // Buckets only grow, the last is "+Inf" and as large as the count.
  static void check_histogram(const std::string& name, const Family& family) {
    std::map<std::string, std::map<double, double>> buckets;
    std::map<std::string, double> counts;
    for (const Sample& sample : family.samples) {
      std::string series;
      double end = NAN;
      for (const auto& [label, value] : sample.labels) {
        if (label == "le") {
          end = value == "+Inf" ? INFINITY : std::stod(value);
        } else {
          series += fmt::format("{}={}\n", label, value);
        }
      }
      if (sample.name == name + "_bucket") buckets[series][end] = sample.value;
      if (sample.name == name + "_count") counts[series] = sample.value;
    }
    EXPECT_EQ(buckets.size(), counts.size()) << name;
    for (const auto& [series, ends] : buckets) {
      double before = 0;
      for (const auto& [end, count] : ends) {
        EXPECT_GE(count, before) << name << series;
        before = count;
      }
      EXPECT_EQ(ends.rbegin()->first, INFINITY) << name << series;
      EXPECT_EQ(before, counts[series]) << name << series;
    }
  }

  std::string_view line_;
  std::string_view rest_;
  std::string current_;
  std::set<std::string> series_;
};

}  // namespace divvy::testing
