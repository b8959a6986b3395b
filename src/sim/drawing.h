// A picture as a list of things to draw, from the back to the front: between the layout of a chart
// (plot.cc) and the SVG that it becomes (drawing_svg.cc). Plain values.
// Measured in points from the top left.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace divvy::sim {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

struct Position {
  double x = 0;
  double y = 0;
};

struct Stroke {
  std::vector<Position> points;
  Rgb color;
  double width = 1;
  std::vector<double> dashes;  // lengths that are drawn and left out in turn; empty: all drawn
};

enum class Anchor { kStart, kMiddle, kEnd };

struct Label {
  Position at;  // of the anchor, on the line that the letters stand on
  std::string text;
  double size = 12;  // of a letter with everything that it may need
  Anchor anchor = Anchor::kStart;
  Rgb color;
  bool bold = false;
  bool upwards = false;  // turned, to be read from below
};

struct Drawing {
  double width = 0;
  double height = 0;
  std::vector<std::variant<Stroke, Label>> items;
};

[[nodiscard]] std::string svg_of(const Drawing& drawing);

}  // namespace divvy::sim
