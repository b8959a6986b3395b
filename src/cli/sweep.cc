#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <limits>
#include <optional>

#include "base/text.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

Result<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return err(ErrorCode::kInvalidArgument, "{} is no whole number",
               escape_for_terminal(text.substr(0, 40)));
  }
  return value;
}

// "0..4" as 0, 1, 2, 3, 4.
Result<std::vector<std::string>> range_values(std::string_view text, std::size_t dots) {
  DIVVY_TRY(first, whole_number(text.substr(0, dots)));
  DIVVY_TRY(last, whole_number(text.substr(dots + 2)));
  // Of any two numbers: the difference may not fit.
  const auto steps = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
  if (first > last || steps >= kMostSweepJobs) {
    return err(ErrorCode::kInvalidArgument, "{} to {} is no range of 1 to {} numbers", first, last,
               kMostSweepJobs);
  }
  std::vector<std::string> values;
  // Counted by steps: behind the last number there may be none.
  for (std::uint64_t i = 0; i <= steps; ++i) {
    values.push_back(fmt::to_string(first + static_cast<std::int64_t>(i)));
  }
  return values;
}

struct NoJsonNumber {
  std::string_view name;
  double value;
};
constexpr std::array<NoJsonNumber, 3> kNoJsonNumbers{
    {{"NaN", std::numeric_limits<double>::quiet_NaN()},
     {"Infinity", std::numeric_limits<double>::infinity()},
     {"-Infinity", -std::numeric_limits<double>::infinity()}}};

bool replace_all(json::value& text, std::string_view from, std::string_view to) {
  if (!text.is_string()) return false;
  std::string made(text.as_string());
  bool found = false;
  for (std::size_t at = 0; (at = made.find(from, at)) != std::string::npos; at += to.size()) {
    made.replace(at, from.size(), to);
    found = true;
  }
  if (found) text = json::string(made);
  return found;
}

// JSON has no such numbers, so they become texts.
std::string with_quoted_numbers(std::string_view line) {
  std::string text;
  bool in_text = false;
  while (!line.empty()) {
    const auto* const found =
        in_text ? kNoJsonNumbers.end() : std::ranges::find_if(kNoJsonNumbers, [&](auto& one) {
          return line.starts_with(one.name);
        });
    if (found != kNoJsonNumbers.end()) {
      text += fmt::format("\"{}\"", found->name);
      line.remove_prefix(found->name.size());
      continue;
    }
    if (line.front() == '"') in_text = !in_text;
    const std::size_t width =
        in_text && line.front() == '\\' ? std::min<std::size_t>(2, line.size()) : 1;
    text += line.substr(0, width);
    line.remove_prefix(width);
  }
  return text;
}

std::optional<double> metric_of(const json::value& value) {
  if (value.is_number()) return value.to_number<double>();
  if (!value.is_string()) return std::nullopt;
  const auto* const found =
      std::ranges::find(kNoJsonNumbers, std::string_view(value.as_string()), &NoJsonNumber::name);
  return found == kNoJsonNumbers.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace

Result<SweepAxis> parse_sweep_axis(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return err(ErrorCode::kInvalidArgument,
               "--sweep: \"{}\" is not like lr=0.1,0.01 or seed=0..4{}{}",
               escape_for_terminal(text.substr(0, 60)), why.empty() ? "" : ": ", why);
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return wrong("");
  SweepAxis axis{.name = std::string(text.substr(0, equals)), .values = {}};
  if (const Status good = model::check_name("value", axis.name); !good) {
    return wrong(good.error().message);
  }
  const std::string_view values = text.substr(equals + 1);
  const std::size_t dots = values.find("..");
  // "../a,../b" are paths.
  const bool is_range = dots != std::string_view::npos && dots > 0 &&
                        values.find_first_of(",/") == std::string_view::npos;
  if (is_range) {
    auto range = range_values(values, dots);
    if (!range) return wrong(range.error().message);
    axis.values = *std::move(range);
    return axis;
  }
  for (const std::string_view value : split(values, ',')) axis.values.emplace_back(value);
  if (std::ranges::any_of(axis.values, &std::string::empty)) return wrong("a value is empty");
  return axis;
}

Result<std::vector<SweepPoint>> sweep_points(const std::vector<SweepAxis>& axes) {
  std::vector<SweepPoint> points{{}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SweepAxis& axis = axes[i];
    const auto same = [&](const SweepAxis& other) { return other.name == axis.name; };
    if (std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      return err(ErrorCode::kInvalidArgument, "--sweep: {} is there twice", axis.name);
    }
    if (points.size() * axis.values.size() > kMostSweepJobs) {
      return err(ErrorCode::kInvalidArgument,
                 "--sweep: these are more than the {} jobs that a sweep may have; leave out values",
                 kMostSweepJobs);
    }
    std::vector<SweepPoint> more;
    for (const SweepPoint& point : points) {
      for (const std::string& value : axis.values) {
        more.push_back(point);
        more.back().emplace_back(axis.name, value);
      }
    }
    points = std::move(more);
  }
  return points;
}

Status put_sweep_point(const SweepPoint& point, const std::string& sweep, json::object& document) {
  json::value& labels = document["labels"];
  if (!labels.is_object()) labels = json::object();
  labels.as_object()[kSweepLabel] = sweep;
  for (const auto& [name, value] : point) {
    const std::string mark = "{" + name + "}";
    bool said = false;
    if (json::value* const command = document.if_contains("command");
        command != nullptr && command->is_array()) {
      for (json::value& word : command->as_array()) said = replace_all(word, mark, value) || said;
    }
    if (json::value* const variables = document.if_contains("environment");
        variables != nullptr && variables->is_object()) {
      for (auto& variable : variables->as_object()) {
        said = replace_all(variable.value(), mark, value) || said;
      }
    }
    if (!said) {
      return err(ErrorCode::kInvalidArgument,
                 "--sweep {}: write {} where its value belongs, in the command or in --env", name,
                 mark);
    }
    labels.as_object()[std::string(kSweepValueLabel) + name] = value;
  }
  return {};
}

Metrics metrics_in(std::string_view output) {
  while (!output.empty()) {
    const std::string_view line = trim(output.substr(output.rfind('\n') + 1));
    const std::size_t end = output.rfind('\n');
    output = end == std::string_view::npos ? std::string_view() : output.substr(0, end);
    if (!line.starts_with('{') || !line.ends_with('}')) continue;
    boost::system::error_code code;
    const json::value value = json::parse(with_quoted_numbers(line), code);
    if (code || !value.is_object()) continue;
    Metrics metrics;
    for (const auto& [name, said] : value.as_object()) {
      if (const auto number = metric_of(said)) metrics.emplace_back(std::string(name), *number);
    }
    if (!metrics.empty()) return metrics;
  }
  return {};
}

}  // namespace divvy::cli
