// Letters for pictures, as lines that a pen would draw: they can be drawn at any size. Drawn for
// this program; what is missing is shown as a box. Pure, callable from any thread.
#pragma once

#include <string_view>
#include <vector>

#include "sim/drawing.h"

namespace divvy::sim {

struct PenLines {
  std::vector<std::vector<Position>> lines;  // from (0, 0) on the line they stand on; y goes down
  double width = 0;
};

// `size` is the height from the lowest to the highest that a letter may reach.
[[nodiscard]] PenLines pen_lines(std::string_view text, double size);

}  // namespace divvy::sim
