#include "cli/gpu_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

using model::Gpu;
using model::HealthState;
using model::LinkKind;
using model::Node;

constexpr std::size_t kBarWidth = 8;
constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

// What of the table is shown.
struct Layout {
  bool bar = true;
  std::size_t model_width = kAnyWidth;
  bool power = true;
  bool temperature = true;
  bool utilization = true;
};

// From everything to the least that still is an answer.
constexpr Layout kLayouts[] = {
    {},
    {.bar = false},
    {.bar = false, .model_width = 16},
    {.bar = false, .model_width = 16, .power = false},
    {.bar = false, .model_width = 16, .power = false, .temperature = false},
    {.bar = false, .model_width = 8, .power = false, .temperature = false, .utilization = false},
};

double to_gib(Bytes bytes) { return static_cast<double>(bytes.count()) / (1U << 30U); }

std::string unit_after(const std::optional<std::uint32_t>& value, std::string_view unit,
                       const Style& style) {
  return value ? fmt::format("{} {}", *value, unit) : std::string(style.unknown());
}

Cell or_unknown(std::string text, const Style& style) {
  if (text.empty()) return {std::string(style.unknown()), Color::kDim};
  return {std::move(text)};
}

Cell memory_bar(const Gpu& gpu, const Style& style) {
  if (!gpu.memory_total || !gpu.memory_used || gpu.memory_total->count() == 0) return "";
  const double used = std::min(1.0, to_gib(*gpu.memory_used) / to_gib(*gpu.memory_total));
  auto filled = static_cast<std::size_t>(std::lround(used * static_cast<double>(kBarWidth)));
  // A little is not nothing.
  if (filled == 0 && *gpu.memory_used >= gib(1)) filled = 1;
  std::string text;
  for (std::size_t i = 0; i < kBarWidth; ++i) {
    text += i < filled ? style.pick("▇", "#") : style.pick("▁", ".");
  }
  return {text, used < 0.7 ? Color::kGreen : used < 0.9 ? Color::kYellow : Color::kRed};
}

std::string gib_text(Bytes bytes) { return fmt::format("{:.1f}", to_gib(bytes)); }
std::string watt_text(std::uint32_t milliwatts) {
  return fmt::to_string((milliwatts + 500) / 1000);
}

// The room that the numbers behind the slashes need, so that the slashes stand under each other.
struct Widths {
  std::size_t memory_total = 0;
  std::size_t power_limit = 0;
};

Widths measure(const Node& node) {
  Widths widths;
  for (const Gpu& gpu : node.gpus()) {
    if (gpu.memory_total) {
      widths.memory_total = std::max(widths.memory_total, gib_text(*gpu.memory_total).size());
    }
    if (gpu.power_limit_mw) {
      widths.power_limit = std::max(widths.power_limit, watt_text(*gpu.power_limit_mw).size());
    }
  }
  return widths;
}

std::string memory_text(const Gpu& gpu, const Widths& widths, const Style& style) {
  if (!gpu.memory_total || !gpu.memory_used) return std::string(style.unknown());
  return fmt::format("{} / {:>{}} GiB", gib_text(*gpu.memory_used), gib_text(*gpu.memory_total),
                     widths.memory_total);
}

std::string power_text(const Gpu& gpu, const Widths& widths, const Style& style) {
  if (!gpu.power_mw) return std::string(style.unknown());
  if (!gpu.power_limit_mw) return watt_text(*gpu.power_mw) + " W";
  return fmt::format("{} / {:>{}} W", watt_text(*gpu.power_mw), watt_text(*gpu.power_limit_mw),
                     widths.power_limit);
}

Cell health_cell(const Gpu& gpu) {
  const std::string word(to_string(gpu.health.state));
  switch (gpu.health.state) {
    case HealthState::kHealthy:
      return {word, Color::kGreen};
    case HealthState::kQuarantined:
      return {word, Color::kRed};
    case HealthState::kUnknown:
      return {word, Color::kDim};
    default:
      return {word, Color::kYellow};
  }
}

// "1-3 (NV18)", "none", or nothing when it is not known.
std::string nvlink_peers(const Node& node, std::size_t place) {
  std::map<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> by_count;
  bool all_known = true;
  for (std::size_t other = 0; other < node.gpus().size(); ++other) {
    const model::Link link = node.topology().link(place, other);
    if (link.kind == LinkKind::kUnknown) all_known = false;
    if (link.kind != LinkKind::kNvlink) continue;
    by_count[link.nvlink_count].push_back(node.gpus()[other].index.value());
  }
  std::string text;
  for (const auto& [count, peers] : by_count) {
    if (!text.empty()) text += ' ';
    text += fmt::format("{} ({})", to_range_list(peers), to_string(model::nvlink(count)));
  }
  return text.empty() && all_known ? "none" : text;
}

Table build(const Node& node, const Style& style, const Layout& layout, bool wide) {
  const Widths widths = measure(node);
  Table table;
  table.add_column("GPU");
  table.add_column("MODEL");
  if (layout.bar) table.add_column("MEMORY");
  table.add_column(layout.bar ? "" : "MEMORY", Align::kRight);
  if (layout.utilization) table.add_column("UTIL", Align::kRight);
  if (layout.temperature) table.add_column("TEMP", Align::kRight);
  if (layout.power) table.add_column("POWER", Align::kRight);
  table.add_column("HEALTH");
  if (wide) {
    for (const char* header : {"UUID", "PCI", "NUMA", "NVLINK", "DRIVER"}) {
      table.add_column(header);
    }
  }
  for (std::size_t i = 0; i < node.gpus().size(); ++i) {
    const Gpu& gpu = node.gpus()[i];
    std::vector<Cell> row;
    row.emplace_back(fmt::to_string(gpu.index));
    const std::string name = escape_for_terminal(gpu.name.value_or(""));
    row.push_back(or_unknown(shorten(name, layout.model_width, style), style));
    if (layout.bar) row.push_back(memory_bar(gpu, style));
    row.emplace_back(memory_text(gpu, widths, style));
    if (layout.utilization) row.emplace_back(unit_after(gpu.utilization_percent, "%", style));
    if (layout.temperature) {
      row.emplace_back(unit_after(gpu.temperature_c, style.pick("°C", "C"), style));
    }
    if (layout.power) row.emplace_back(power_text(gpu, widths, style));
    row.push_back(health_cell(gpu));
    if (wide) {
      row.push_back(or_unknown(gpu.uuid ? gpu.uuid->str() : "", style));
      row.push_back(or_unknown(gpu.pci ? to_string(*gpu.pci) : "", style));
      row.push_back(or_unknown(gpu.numa_node ? fmt::to_string(*gpu.numa_node) : "", style));
      row.push_back(or_unknown(nvlink_peers(node, i), style));
      row.push_back(or_unknown(escape_for_terminal(gpu.driver_version.value_or("")), style));
    }
    table.add_row(std::move(row));
  }
  return table;
}

Table build_to_fit(const Node& node, const Style& style, bool wide) {
  for (const Layout& layout : kLayouts) {
    if (layout.bar && !style.decoration) continue;
    Table table = build(node, style, layout, wide);
    const bool fits = !style.columns || table.width() <= *style.columns;
    const bool last = &layout == std::end(kLayouts) - 1 || (wide && !layout.bar);
    if (fits || last) return table;
  }
  return {};
}

// "4 GPUs (simulated), driver 580.159.04, CUDA 13.0 · 512.0 GiB of 561.6 GiB free"
std::string summary(const Node& node, const Style& style) {
  const std::size_t count = node.gpus().size();
  std::string text = counted(count, "GPU");
  if (node.simulated()) text += " (simulated)";
  if (node.driver_version()) {
    text += fmt::format(", driver {}", escape_for_terminal(*node.driver_version()));
  }
  if (node.cuda_version()) text += fmt::format(", CUDA {}", to_string(*node.cuda_version()));
  double total = 0;
  double free = 0;
  std::size_t known = 0;
  for (const Gpu& gpu : node.gpus()) {
    const auto left = memory_free(gpu);
    if (!left) continue;
    ++known;
    total += to_gib(*gpu.memory_total);
    free += to_gib(*left);
  }
  if (known > 0) {
    text += fmt::format(" {} {:.1f} of {:.1f} GiB free", style.pick("·", "|"), free, total);
    if (known < count) text += fmt::format(" on {} of them", known);
  }
  return text + "\n";
}

// Everything that the cells could not say, one line per finding; GPUs with the same finding share a
// line.
std::string notes(const Node& node, const Style& style) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> findings;
  const auto add = [&findings](const Gpu& gpu, const std::string& finding) {
    auto known =
        std::ranges::find(findings, finding, [](const auto& entry) { return entry.first; });
    if (known == findings.end()) known = findings.insert(known, {finding, {}});
    known->second.push_back(gpu.index.value());
  };
  for (const Gpu& gpu : node.gpus()) {
    if (!gpu.health.reason.empty()) {
      add(gpu, fmt::format("{}: {}", to_string(gpu.health.state), gpu.health.reason));
    }
    std::vector<std::pair<std::string, std::string>> fields_by_error;
    for (const model::FieldProblem& problem : gpu.problems) {
      // A lost GPU answers nothing; saying it once is enough.
      if (gpu.health.reason.find(problem.error) != std::string::npos) continue;
      const auto same = std::ranges::find(fields_by_error, problem.error,
                                          [](const auto& entry) { return entry.first; });
      if (same == fields_by_error.end()) {
        fields_by_error.emplace_back(problem.error, problem.field);
      } else {
        same->second += ", " + problem.field;
      }
    }
    for (const auto& [error, fields] : fields_by_error) {
      add(gpu, fmt::format("{}: {}", fields, error));
    }
  }
  std::string text;
  for (const auto& [finding, gpus] : findings) {
    const std::string who =
        fmt::format("{} {}:", gpus.size() == 1 ? "GPU" : "GPUs", to_range_list(gpus));
    text += fmt::format("{} {}\n", style.paint(Color::kYellow, who), escape_for_terminal(finding));
  }
  return text;
}

}  // namespace

std::string to_range_list(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text +=
        last == i ? fmt::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string gpu_table(const Node& node, const Style& style, bool wide) {
  if (node.gpus().empty()) {
    return fmt::format(
        "No GPU: the driver{} answers, but lists none.\n",
        node.driver_version() ? " " + escape_for_terminal(*node.driver_version()) : "");
  }
  return build_to_fit(node, style, wide).render(style) + "\n" + summary(node, style) +
         notes(node, style);
}

}  // namespace divvy::cli
