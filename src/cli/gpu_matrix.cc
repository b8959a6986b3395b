// The matrix of connections of gpu_table.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/gpu_table.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

using model::LinkKind;

struct LegendEntry {
  LinkKind kind;
  std::string_view word;
  std::string_view meaning;
};
constexpr LegendEntry kLegend[] = {
    {LinkKind::kSelf, "X", "the GPU itself"},
    {LinkKind::kNvlink, "NV#", "# NVLinks, bonded"},
    {LinkKind::kPix, "PIX", "PCIe, through one bridge at most"},
    {LinkKind::kPxb, "PXB", "PCIe, through several bridges but no host bridge"},
    {LinkKind::kPhb, "PHB", "PCIe, through a host bridge (the processor)"},
    {LinkKind::kNode, "NODE", "PCIe, between host bridges of one NUMA node"},
    {LinkKind::kSys, "SYS", "from one NUMA node to another (slowest)"},
    {LinkKind::kUnknown, "?", "the driver does not say"},
};

Color color_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return Color::kGreen;
    case LinkKind::kSelf:
      return Color::kDim;
    case LinkKind::kSys:
    case LinkKind::kUnknown:
      return Color::kYellow;
    default:
      return Color::kCyan;
  }
}

std::string legend(const std::set<LinkKind>& shown, const Style& style) {
  std::string text;
  for (const LegendEntry& entry : kLegend) {
    if (!shown.contains(entry.kind)) continue;
    const std::string word(entry.word);
    const std::string gap(6 - word.size(), ' ');
    text += fmt::format("  {}{}{}\n", style.paint(color_of(entry.kind), word), gap, entry.meaning);
  }
  return text;
}

}  // namespace

std::string gpu_topology_matrix(const model::Node& node, const Style& style) {
  if (node.gpus().empty()) return gpu_table(node, style, false);
  Table table;
  table.add_column("");
  for (const model::Gpu& gpu : node.gpus()) table.add_column(fmt::format("GPU{}", gpu.index));
  table.add_column("NUMA");
  table.add_column("CPU AFFINITY");

  std::set<LinkKind> shown;
  for (std::size_t i = 0; i < node.gpus().size(); ++i) {
    const model::Gpu& gpu = node.gpus()[i];
    std::vector<Cell> row;
    row.emplace_back(fmt::format("GPU{}", gpu.index), Color::kBold);
    for (std::size_t j = 0; j < node.gpus().size(); ++j) {
      const model::Link link = node.topology().link(i, j);
      shown.insert(link.kind);
      row.emplace_back(to_string(link), color_of(link.kind));
    }
    const std::string unknown(style.unknown());
    const std::string& cpus = node.topology().affinity(i).cpus;
    row.emplace_back(gpu.numa_node ? fmt::to_string(*gpu.numa_node) : unknown);
    row.emplace_back(cpus.empty() ? unknown : cpus);
    table.add_row(std::move(row));
  }
  return table.render(style) + "\n" + legend(shown, style);
}

}  // namespace divvy::cli
