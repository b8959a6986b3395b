// Drawings as SVG.
#include <fmt/format.h>

#include <iterator>

#include "base/text.h"
#include "sim/drawing.h"

namespace divvy::sim {
namespace {

std::string hex(Rgb color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue);
}

// What XML cannot carry is shown as a question mark.
std::string xml_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto point = first_code_point(text);
    const std::string_view bytes = text.substr(0, point ? point->size : 1);
    text.remove_prefix(bytes.size());
    if (!point || point->value < 0x20 || point->value == 0xfffe || point->value == 0xffff) {
      result += '?';
    } else if (bytes == "&") {
      result += "&amp;";
    } else if (bytes == "<") {
      result += "&lt;";
    } else if (bytes == ">") {
      result += "&gt;";
    } else {
      result += bytes;
    }
  }
  return result;
}

std::string item(const Stroke& stroke) {
  std::string points;
  for (const Position& point : stroke.points) {
    fmt::format_to(std::back_inserter(points), "{}{:.1f},{:.1f}", points.empty() ? "" : " ",
                   point.x, point.y);
  }
  std::string dashes;
  if (!stroke.dashes.empty()) {
    dashes = fmt::format(" stroke-dasharray=\"{}\"", fmt::join(stroke.dashes, " "));
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\"{}/>\n",
      points, hex(stroke.color), stroke.width, dashes);
}

std::string item(const Label& label) {
  const std::string_view anchor = label.anchor == Anchor::kStart    ? "start"
                                  : label.anchor == Anchor::kMiddle ? "middle"
                                                                    : "end";
  std::string turned;
  if (label.upwards) {
    turned = fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", label.at.x, label.at.y);
  }
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}{}>{}"
      "</text>\n",
      label.at.x, label.at.y, label.size, anchor, hex(label.color),
      label.bold ? " font-weight=\"bold\"" : "", turned, xml_text(label.text));
}

}  // namespace

std::string svg_of(const Drawing& drawing) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      drawing.width, drawing.height);
  for (const auto& each : drawing.items) {
    svg += std::visit([](const auto& value) { return item(value); }, each);
  }
  return svg + "</svg>\n";
}

}  // namespace divvy::sim
