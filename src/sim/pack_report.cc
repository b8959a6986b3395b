#include "sim/pack_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

using Levels = std::map<std::uint64_t, PackLevel>;

struct Measure {
  std::string_view key;
  double (*of)(const PackLevel&);
};
constexpr Measure kMeasures[] = {
    {"alloc", [](const PackLevel& level) { return level.alloc; }},
    {"unallocated", [](const PackLevel& level) { return 100 - level.alloc; }},
    {"frag", [](const PackLevel& level) { return level.frag; }},
    {"frag_ratio", [](const PackLevel& level) { return level.frag_ratio; }},
};

std::string percent(double value) { return fmt::format("{:.2f}", value); }

std::optional<std::uint64_t> parse_level(std::string_view text) {
  text = trim(text);
  std::uint64_t level = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [read, error] = std::from_chars(begin, end, level);
  if (error != std::errc() || read != end) return std::nullopt;
  return level;
}

// As JSON text; bytes that are not UTF-8, which JSON cannot carry, are replaced.
std::string json_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const auto point = first_code_point(text);
    const std::string_view bytes = text.substr(0, point ? point->size : 1);
    text.remove_prefix(bytes.size());
    if (!point) {
      result += "\\ufffd";
    } else if (point->value == U'"' || point->value == U'\\') {
      result += '\\';
      result += bytes;
    } else if (point->value <= 0xffff && escape_for_terminal(bytes) != bytes) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}",
                     static_cast<std::uint32_t>(point->value));
    } else {
      result += bytes;
    }
  }
  return result += '"';
}

// {"alloc": {...}, ...} without the braces around it; a line for each measure.
std::string measures(const Levels& levels, std::string_view indent) {
  std::string text;
  for (const Measure& measure : kMeasures) {
    if (!text.empty()) text += ",\n";
    fmt::format_to(std::back_inserter(text), "{}\"{}\": {{", indent, measure.key);
    std::string_view separator;
    for (const auto& [level, values] : levels) {
      fmt::format_to(std::back_inserter(text), "{}\"{}\": {:.4f}", separator, level,
                     measure.of(values));
      separator = ", ";
    }
    text += '}';
  }
  return text;
}

double mean_failed(const PackReport& report) {
  double sum = 0;
  for (const PackRun& run : report.runs) sum += static_cast<double>(run.failed);
  return report.runs.empty() ? 0 : sum / static_cast<double>(report.runs.size());
}

std::string document(const PackReport& report) {
  std::string text = fmt::format("{{\n  \"policy\": {},\n  \"runs\": [", json_text(report.policy));
  std::uint64_t seed = report.seed;
  for (const PackRun& run : report.runs) {
    if (&run != &report.runs.front()) text += ',';
    fmt::format_to(std::back_inserter(text),
                   "\n    {{\n      \"sequence\": {},\n      \"seed\": {},\n      \"arrivals\": {},"
                   "\n      \"failed\": {},\n{}\n    }}",
                   json_text(run.sequence), seed++, run.arrivals, run.failed,
                   measures(run.levels, "      "));
  }
  fmt::format_to(std::back_inserter(text),
                 "\n  ],\n  \"mean\": {{\n{},\n    \"failed\": {:.1f}\n  }}\n}}",
                 measures(report.mean(), "    "), mean_failed(report));
  return text;
}

std::string cell(const Levels& levels, std::uint64_t level, const Measure& measure) {
  const auto found = levels.find(level);
  return found == levels.end() ? std::string() : percent(measure.of(found->second));
}

// Until GPUs become scarce every policy places everything, and all curves are one: a picture begins
// a little before the last one leaves it.
std::uint64_t interesting_from(std::span<const Levels> means) {
  constexpr double kBehind = 1;
  constexpr std::uint64_t kBefore = 15;
  std::uint64_t latest = 0;
  for (const Levels& mean : means) {
    for (const auto& [level, values] : mean) {
      if (static_cast<double>(level) - values.alloc < kBehind) continue;
      latest = std::max(latest, level);
      break;
    }
  }
  return latest > kBefore ? latest - kBefore : 0;
}

}  // namespace

std::map<std::uint64_t, PackLevel> PackReport::mean() const {
  Levels means;
  std::map<std::uint64_t, double> counts;
  for (const PackRun& run : runs) {
    for (const auto& [level, values] : run.levels) {
      PackLevel& sum = means[level];
      sum.alloc += values.alloc;
      sum.frag += values.frag;
      sum.frag_ratio += values.frag_ratio;
      ++counts[level];
    }
  }
  for (auto& [level, values] : means) {
    const double count = counts[level];
    values = {values.alloc / count, values.frag / count, values.frag_ratio / count};
  }
  return means;
}

Result<LevelFilter> LevelFilter::parse(std::string_view text) {
  LevelFilter filter;
  if (trim(text) == "all") return filter;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const auto first = parse_level(piece.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_level(piece.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return err(ErrorCode::kInvalidArgument,
                 "{} are no levels; write all, or numbers and ranges like 50,80,90-130",
                 quote_typed(text));
    }
    filter.ranges_.push_back({*first, *last});
  }
  return filter;
}

bool LevelFilter::operator()(std::uint64_t level) const {
  return ranges_.empty() || std::ranges::any_of(ranges_, [level](const Range& range) {
           return range.first <= level && level <= range.last;
         });
}

TableCells pack_table(std::span<const PackReport> reports, const LevelFilter& levels) {
  const bool several = reports.size() > 1;
  std::vector<Levels> means;
  std::set<std::uint64_t> rows;
  TableCells cells{{"ARRIVED"}};
  for (const PackReport& report : reports) {
    means.push_back(report.mean());
    for (const auto& [level, values] : means.back()) {
      if (levels(level)) rows.insert(level);
    }
    if (several) cells.front().push_back(escape_for_terminal(report.policy));
  }
  if (!several) {
    for (const char* header : {"ALLOCATED", "UNALLOCATED", "FRAGMENTED", "OF FREE"}) {
      cells.front().emplace_back(header);
    }
  }
  for (const std::uint64_t level : rows) {
    std::vector<std::string> row{fmt::format("{} %", level)};
    for (const Levels& mean : means) {
      const auto shown = std::span(kMeasures).first(several ? 1 : std::size(kMeasures));
      for (const Measure& measure : shown) row.push_back(cell(mean, level, measure));
    }
    cells.push_back(std::move(row));
  }
  return cells;
}

std::string pack_summary(std::span<const PackReport> reports) {
  std::string text;
  for (const PackReport& report : reports) {
    double alloc = 0;
    double arrivals = 0;
    for (const PackRun& run : report.runs) {
      alloc += run.alloc;
      arrivals += static_cast<double>(run.arrivals);
    }
    const auto runs = static_cast<double>(std::max<std::size_t>(1, report.runs.size()));
    fmt::format_to(
        std::back_inserter(text),
        "{}: {:.2f} % of the GPUs allocated at the end; {:.0f} of {:.0f} pods found no "
        "place{}\n",
        escape_for_terminal(report.policy), alloc / runs, mean_failed(report), arrivals / runs,
        report.runs.size() > 1 ? fmt::format(" (means of {} sequences)", report.runs.size()) : "");
  }
  return text;
}

std::string pack_document(std::span<const PackReport> reports) {
  if (reports.size() == 1) return document(reports.front()) + "\n";
  std::string text = "{\"policies\": [\n";
  for (const PackReport& report : reports) {
    if (&report != &reports.front()) text += ",\n";
    text += document(report);
  }
  return text + "\n]}\n";
}

Figure pack_figure(std::span<const PackReport> reports) {
  Chart alloc{.title = "GPUs allocated",
              .x_label = "arrived, % of all GPUs",
              .y_label = "% of all GPUs",
              .series = {}};
  Chart frag{.title = "Free, and of no use to typical pods",
             .x_label = "arrived, % of all GPUs",
             .y_label = "% of all GPUs",
             .series = {}};
  std::vector<Levels> means;
  for (const PackReport& report : reports) means.push_back(report.mean());
  const std::uint64_t begin = interesting_from(means);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    Series allocated{.name = reports[i].policy, .points = {}};
    Series fragmented{.name = reports[i].policy, .points = {}};
    for (const auto& [level, values] : means[i]) {
      const auto x = static_cast<double>(level);
      if (level >= begin) allocated.points.push_back({x, values.alloc});
      fragmented.points.push_back({x, values.frag});
    }
    alloc.series.push_back(std::move(allocated));
    frag.series.push_back(std::move(fragmented));
  }
  const std::size_t sequences = reports.empty() ? 0 : reports.front().runs.size();
  return {.title = fmt::format("divvy sim pack, mean of {} sequence{}", sequences,
                               sequences == 1 ? "" : "s"),
          .charts = {std::move(alloc), std::move(frag)}};
}

}  // namespace divvy::sim
