// What `divvy top` shows, as lines of coloured pieces: drawn on a terminal by top_screen, printed
// by --once. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/stats.h"
#include "cli/style.h"

namespace divvy::cli {

struct Piece {
  std::string text;
  Color color = Color::kPlain;
};
using Line = std::vector<Piece>;

enum class SortKey { kUsed, kMemory, kWaiting, kName, kId };
[[nodiscard]] std::string_view to_string(SortKey key);
[[nodiscard]] SortKey next(SortKey key);

struct View {
  SortKey sort = SortKey::kUsed;
  std::string filter;  // Tenants whose name, user or command has it somewhere
  bool paused = false;
  // So many lines at most; what does not fit is counted. Nothing: as many as there are.
  std::optional<std::size_t> rows{};
};

// GPUs as stacked bars with their past, then the tenants, then the jobs that wait. `style` says
// what may be drawn and how wide; without a width, 140 columns.
[[nodiscard]] std::vector<Line> top_lines(const Stats& stats, const History& history,
                                          const View& view, const Style& style);

// The lines as text.
[[nodiscard]] std::string to_text(const std::vector<Line>& lines, const Style& style);

}  // namespace divvy::cli
