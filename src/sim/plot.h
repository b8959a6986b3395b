// Line charts as SVG, for --plot. Lines are told apart by colours that most colour-blind people
// can tell apart, and by dashes. Pure but for write_figure(); callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::sim {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name;
  std::vector<PlotPoint> points;  // by ascending x; values that are not finite are left out
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

// Charts side by side that have the same series, and so one legend.
struct Figure {
  std::string title;
  std::vector<Chart> charts;
};

// Refused: a name that does not end with .svg.
[[nodiscard]] Status check_picture_name(std::string_view path);

[[nodiscard]] std::string to_svg(const Figure& figure);

// Writes the file anew.
[[nodiscard]] Status write_figure(const Figure& figure, const std::string& path);

// Round numbers that cover [low, high], about `count` of them; at least two.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, std::size_t count);

}  // namespace divvy::sim
