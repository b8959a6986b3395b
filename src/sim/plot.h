// Line charts as pictures, for --plot: an SVG or a PNG, drawn with nothing but what is here, so
// that they look the same everywhere. Lines are told apart by colours that most colour-blind people
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

enum class PictureFormat { kSvg, kPng };
// By the end of the file's name; the error says which ends there are.
[[nodiscard]] Result<PictureFormat> picture_format(std::string_view path);

[[nodiscard]] std::string to_svg(const Figure& figure);
[[nodiscard]] Result<std::string> to_png(const Figure& figure);

// Writes the file anew, in the format that its name ends with.
[[nodiscard]] Status write_figure(const Figure& figure, const std::string& path);

// Round numbers that cover [low, high], about `count` of them; at least two.
[[nodiscard]] std::vector<double> round_ticks(double low, double high, std::size_t count);

}  // namespace divvy::sim
