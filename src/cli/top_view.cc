#include "cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kColumnsUnknown = 140;
constexpr std::array kTenantColors = {Color::kGreen, Color::kCyan, Color::kYellow, Color::kRed};
constexpr std::array<std::string_view, 5> kSortNames = {"used", "memory", "waiting", "name", "id"};

// How a tenant is marked in bars and in the list: a letter, and a colour where there are any.
struct Mark {
  std::string letter;
  Color color = Color::kPlain;
};
using Marks = std::map<std::uint64_t, Mark>;

// By number, so that a tenant keeps its mark while it runs, however the list is sorted.
Marks mark_tenants(const Stats& stats) {
  std::vector<std::uint64_t> ids;
  ids.reserve(stats.tenants.size());
  for (const TenantStats& tenant : stats.tenants) ids.push_back(tenant.id);
  std::ranges::sort(ids);
  Marks marks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    marks[ids[i]] = {std::string(1, static_cast<char>('a' + i % 26)),
                     kTenantColors[i % kTenantColors.size()]};
  }
  return marks;
}

std::string percent(std::uint64_t thousandths) {
  return fmt::format("{}.{}%", thousandths / 10, thousandths % 10);
}

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

// Adds a bar in which every tenant's part of `whole` has its own colour or letter.
void add_bar(Line& line, const Stats& stats, const Marks& marks, std::uint32_t gpu,
             std::uint64_t whole, std::size_t width, const Style& style,
             std::uint64_t (*part)(const SliceStats&)) {
  line.push_back({"[", Color::kDim});
  // Measured parts may come to a little more than everything; the bar shows them in proportion.
  std::uint64_t all = 0;
  for (const TenantStats& tenant : stats.tenants) {
    for (const SliceStats& slice : tenant.slices) all += slice.gpu == gpu ? part(slice) : 0;
  }
  whole = std::max(whole, all);
  std::uint64_t sum = 0;
  std::size_t drawn = 0;
  for (const TenantStats& tenant : stats.tenants) {
    for (const SliceStats& slice : tenant.slices) {
      if (slice.gpu != gpu) continue;
      sum += part(slice);
      const std::size_t end =
          whole == 0 ? 0 : std::min<std::size_t>(width, (sum * width + whole / 2) / whole);
      if (end <= drawn) continue;
      const Mark& mark = marks.at(tenant.id);
      const bool blocks = style.color && style.unicode;
      line.push_back({repeated(blocks ? "█" : mark.letter, end - drawn), mark.color});
      drawn = end;
    }
  }
  line.push_back({repeated(style.pick("·", "."), width - drawn), Color::kDim});
  line.push_back({"]", Color::kDim});
}

std::string sparkline(const std::vector<std::uint32_t>& looks, std::size_t width,
                      const Style& style) {
  constexpr std::array<std::string_view, 8> kDrawn = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> kPlain = {"_", ".", ".", "-", "-", "=", "=", "#"};
  std::string text;
  const std::size_t skip = looks.size() > width ? looks.size() - width : 0;
  for (std::size_t i = skip; i < looks.size(); ++i) {
    const std::size_t level = std::min<std::size_t>(7, looks[i] * 8UL / (Share::kWhole + 1));
    text += style.unicode ? kDrawn[level] : kPlain[level];
  }
  return text;
}

std::uint64_t used_part(const SliceStats& slice) { return slice.used.value_or(0); }
std::uint64_t memory_part(const SliceStats& slice) { return slice.memory_used.count(); }

std::string free_text(Share share) {
  if (share == Share(Share::kWhole)) return "nothing granted";
  if (share == Share(0)) return "all granted";
  return to_string(share) + " left to grant";
}

// A line for its time and, unless it is to be `brief`, one for its memory.
void add_gpu(std::vector<Line>& lines, const GpuStats& gpu, const Stats& stats,
             const History& history, const Marks& marks, bool brief, const Style& style) {
  const std::size_t width = style.columns.value_or(kColumnsUnknown);
  const std::size_t bar = std::clamp<std::size_t>(width / 3, 10, 60);
  Line compute;
  compute.push_back({fmt::format("GPU {:<2} ", gpu.index), Color::kBold});
  add_bar(compute, stats, marks, gpu.index, Share::kWhole, bar, style, used_part);
  compute.push_back({fmt::format(" {:>6} ", percent(stats.used_on(gpu.index))), Color::kPlain});
  const std::size_t taken = 7 + bar + 2 + 8;
  if (brief && !gpu.unusable.empty()) {
    compute.push_back(
        {shorten(gpu.unusable, width - std::min(width - 1, taken), style), Color::kRed});
  } else if (width > taken + 10) {
    const std::string past =
        sparkline(history.of(gpu.index), std::min<std::size_t>(width - taken - 1, 60), style);
    compute.push_back({past, Color::kDim});
  }
  lines.push_back(std::move(compute));
  if (brief) return;

  Line memory;
  memory.push_back({"memory ", Color::kDim});
  add_bar(memory, stats, marks, gpu.index, gpu.memory.count(), bar, style, memory_part);
  const std::string note = gpu.unusable.empty() ? gpu.model + ", " + free_text(gpu.free_share)
                                                : gpu.model + ": " + gpu.unusable;
  memory.push_back({shorten(fmt::format(" {} of {}  {}", humanize(stats.memory_on(gpu.index)),
                                        humanize(gpu.memory), note),
                            width - std::min(width - 1, 7 + bar + 2), style),
                    gpu.unusable.empty() ? Color::kPlain : Color::kRed});
  lines.push_back(std::move(memory));
}

bool matches(const TenantStats& tenant, const std::string& filter) {
  if (filter.empty()) return true;
  const std::string wanted = to_lower(filter);
  for (const std::string* text : {&tenant.name, &tenant.user, &tenant.command}) {
    if (to_lower(*text).find(wanted) != std::string::npos) return true;
  }
  return false;
}

std::vector<TenantStats> chosen(const Stats& stats, const View& view) {
  std::vector<TenantStats> tenants;
  for (const TenantStats& tenant : stats.tenants) {
    if (matches(tenant, view.filter)) tenants.push_back(tenant);
  }
  std::ranges::sort(tenants, [&view](const TenantStats& a, const TenantStats& b) {
    switch (view.sort) {
      case SortKey::kUsed:
        return std::pair(b.used(), a.id) < std::pair(a.used(), b.id);
      case SortKey::kMemory:
        return std::pair(b.memory(), a.id) < std::pair(a.memory(), b.id);
      case SortKey::kWaiting:
        return std::pair(b.waited(), a.id) < std::pair(a.waited(), b.id);
      case SortKey::kName:
        return a.name < b.name;
      case SortKey::kId:
        break;
    }
    return a.id < b.id;
  });
  return tenants;
}

// A column of the list of tenants. Those with a higher number go first where it gets narrow.
struct Column {
  std::string_view title;
  std::size_t width = 0;
  bool right = false;
  int sacrifice = 0;
  std::string (*value)(const TenantStats& tenant, const SliceStats& slice, const Style& style);
};

constexpr std::string_view kStateTitle = "STATE";
constexpr std::string_view kTenantTitle = "TENANT";

const std::array<Column, 11> kColumns = {{
    {"ID", 4, true, 5,
     [](const auto& tenant, const auto&, const auto&) { return fmt::format("{}", tenant.id); }},
    {kTenantTitle, 18, false, 0,
     [](const auto& tenant, const auto&, const auto&) { return tenant.name; }},
    {"USER", 10, false, 1,
     [](const auto& tenant, const auto&, const auto&) { return tenant.user; }},
    {"GPU", 3, true, 0,
     [](const auto&, const auto& slice, const auto&) { return fmt::format("{}", slice.gpu); }},
    {"SHARE", 8, false, 0,
     [](const auto&, const auto& slice, const auto&) {
       return to_string(slice.share) + (slice.capped ? " cap" : "");
     }},
    {"USED", 7, true, 0,
     [](const auto&, const auto& slice, const Style& style) {
       return slice.used ? percent(*slice.used) : std::string(style.unknown());
     }},
    {"MEMORY", 10, true, 6,
     [](const auto&, const auto& slice, const auto&) { return humanize(slice.memory_used); }},
    {"LIMIT", 10, true, 2,
     [](const auto&, const auto& slice, const auto&) { return humanize(slice.memory_limit); }},
    {"WAITING", 7, true, 3,
     [](const auto&, const auto& slice, const auto&) { return percent(slice.waited); }},
    {"CLASS", 8, false, 4,
     [](const auto& tenant, const auto&, const auto&) { return tenant.tenant_class; }},
    {kStateTitle, 8, false, 7,
     [](const auto& tenant, const auto&, const auto&) { return tenant.state; }},
}};

constexpr std::size_t kMarkWidth = 2;

std::size_t width_of(const std::vector<Column>& columns) {
  std::size_t sum = kMarkWidth;
  for (const Column& column : columns) sum += column.width + 1;
  return sum;
}

std::vector<Column> columns_for(std::size_t width) {
  constexpr int kRounds = 7;
  constexpr std::size_t kShortestName = 8;
  std::vector<Column> columns(kColumns.begin(), kColumns.end());
  const auto surplus = [&] {
    const std::size_t wanted = width_of(columns);
    return wanted > width + 1 ? wanted - width - 1 : 0;
  };
  for (int round = 1; round <= kRounds && surplus() > 0; ++round) {
    // A shorter name is better than none of the numbers behind it.
    const auto name = std::ranges::find(columns, kTenantTitle, &Column::title);
    if (round > 4 && surplus() <= name->width - kShortestName) {
      name->width -= surplus();
      break;
    }
    std::erase_if(columns, [round](const Column& column) { return column.sacrifice == round; });
  }
  return columns;
}

std::string padded(const std::string& text, const Column& column, const Style& style) {
  const std::string cut = shorten(text, column.width, style);
  const std::string space(column.width - std::min(column.width, display_width(cut)), ' ');
  return (column.right ? space + cut : cut + space) + " ";
}

void add_tenants(std::vector<Line>& lines, const Stats& stats, const View& view, const Marks& marks,
                 const Style& style) {
  const std::size_t width = style.columns.value_or(kColumnsUnknown);
  if (stats.tenants.empty()) {
    lines.push_back({{"nobody holds a slice", Color::kDim}});
    return;
  }
  const std::vector<Column> columns = columns_for(width);
  // What is left over at the right is the command's, if it is worth it.
  constexpr std::size_t kWorthIt = 10;
  const std::size_t before = width_of(columns);
  const std::size_t command = width >= before + kWorthIt ? width - before : 0;
  std::string head(kMarkWidth, ' ');
  for (const Column& column : columns) head += padded(std::string(column.title), column, style);
  if (command > 0) head += "COMMAND";
  lines.push_back({{head, Color::kBold}});
  for (const TenantStats& tenant : chosen(stats, view)) {
    for (const SliceStats& slice : tenant.slices) {
      const Mark& mark = marks.at(tenant.id);
      Line line;
      line.push_back({mark.letter + " ", mark.color});
      for (const Column& column : columns) {
        Color color = Color::kPlain;
        if (column.title == kStateTitle) {
          color = tenant.state == "running"   ? Color::kGreen
                  : tenant.state == "waiting" ? Color::kYellow
                  : tenant.state == "failing" ? Color::kRed
                                              : Color::kDim;
        }
        line.push_back({padded(column.value(tenant, slice, style), column, style), color});
      }
      if (command > 0) line.push_back({shorten(tenant.command, command, style), Color::kPlain});
      lines.push_back(std::move(line));
    }
  }
}

// The jobs in the queue, the one that was submitted first on top.
void add_jobs(std::vector<Line>& lines, const Stats& stats, const Style& style) {
  if (stats.jobs.empty()) return;
  const std::size_t width = style.columns.value_or(kColumnsUnknown);
  const bool queues = width >= 60;
  const bool users = width >= 48;
  const auto line = [&](const std::string& id, const WaitingJob& job) {
    const auto cell = [&](const std::string& text, std::size_t columns) {
      const std::string cut = shorten(text, columns, style);
      return cut + std::string(columns - std::min(columns, display_width(cut)) + 1, ' ');
    };
    std::string text =
        std::string(kMarkWidth, ' ') + fmt::format("{:>4} ", id) + cell(job.name, 18);
    if (users) text += cell(job.user, 10);
    if (queues) text += cell(job.queue, 14);
    return text + shorten(job.gpu, 8, style);
  };
  lines.push_back({{line("ID", {0, "WAITING JOB", "USER", "QUEUE", "GPU"}), Color::kBold}});
  for (auto job = stats.jobs.rbegin(); job != stats.jobs.rend(); ++job) {
    lines.push_back({{line(fmt::format("{}", job->id), *job), Color::kPlain}});
  }
}

// At most `rows` lines; the last of them counts what is not shown.
void cut(std::vector<Line>& lines, std::size_t rows, std::string_view thing, const Style& style) {
  if (lines.size() <= rows) return;
  const std::size_t left = lines.size() - std::max<std::size_t>(rows, 1) + 1;
  lines.resize(rows);
  if (rows == 0) return;
  lines.back() = {{fmt::format("  {} and {}", style.pick("…", "..."),
                               counted(left, fmt::format("more {}", thing))),
                   Color::kDim}};
}

}  // namespace

std::string_view to_string(SortKey key) { return kSortNames[static_cast<std::size_t>(key)]; }

SortKey next(SortKey key) {
  return static_cast<SortKey>((static_cast<std::size_t>(key) + 1) % kSortNames.size());
}

std::vector<Line> top_lines(const Stats& stats, const History& history, const View& view,
                            const Style& style) {
  const std::size_t width = style.columns.value_or(kColumnsUnknown);
  const Marks marks = mark_tenants(stats);
  std::vector<Line> lines;
  std::string head = fmt::format("divvy top   {}{}   {}", stats.hostname,
                                 stats.simulated ? " (simulated GPUs)" : "",
                                 counted(stats.tenants.size(), "tenant"));
  if (stats.waiting > 0) head += fmt::format(", {} waiting for a place", stats.waiting);
  if (!stats.jobs.empty()) {
    head += fmt::format(", {}{} in the queue", counted(stats.jobs.size(), "job"),
                        stats.more_jobs ? " or more" : "");
  }
  head += fmt::format("   sorted by {}", to_string(view.sort));
  if (!view.filter.empty()) head += fmt::format("   only \"{}\"", escape_for_terminal(view.filter));
  if (view.paused) head += "   PAUSED";
  lines.push_back({{shorten(head, width, style), Color::kBold}});

  std::vector<Line> tenants;
  add_tenants(tenants, stats, view, marks, style);
  std::vector<Line> jobs;
  add_jobs(jobs, stats, style);
  std::vector<Line> gpus;
  const auto draw_gpus = [&](bool brief) {
    gpus.clear();
    for (const GpuStats& gpu : stats.gpus) {
      add_gpu(gpus, gpu, stats, history, marks, brief, style);
    }
  };
  draw_gpus(false);
  bool air = true;
  if (view.rows && 1 + gpus.size() + tenants.size() + jobs.size() + 2 > *view.rows) {
    // Each part keeps a few lines, and the GPUs have what is left over by the others.
    constexpr std::size_t kFewTenants = 4;
    constexpr std::size_t kFewJobs = 3;
    air = false;
    const std::size_t room = *view.rows - 1;
    const std::size_t few_jobs = std::min(jobs.size(), kFewJobs);
    const std::size_t few = std::min(tenants.size(), kFewTenants) + few_jobs;
    const std::size_t for_gpus = room > few ? room - few : 1;
    if (gpus.size() > for_gpus) draw_gpus(true);
    cut(gpus, for_gpus, "GPU", style);
    const std::size_t below = room - std::min(room, gpus.size());
    cut(tenants, below - std::min(below, few_jobs), "slice", style);
    cut(jobs, below - std::min(below, tenants.size()), "job", style);
  }
  const auto append = [&lines, air](std::vector<Line>& part) {
    if (air && !part.empty()) lines.emplace_back();
    for (Line& line : part) lines.push_back(std::move(line));
  };
  for (Line& line : gpus) lines.push_back(std::move(line));
  append(tenants);
  append(jobs);
  return lines;
}

std::string to_text(const std::vector<Line>& lines, const Style& style) {
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (const Piece& piece : line) row += style.paint(piece.color, piece.text);
    while (!row.empty() && row.back() == ' ') row.pop_back();
    text += row + "\n";
  }
  return text;
}

}  // namespace divvy::cli
