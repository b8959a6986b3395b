// Drawings as PNG: lines with soft edges into pixels, and these through libpng.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>

#include "base/check.h"
#include "sim/drawing.h"
#include "sim/stroke_font.h"

namespace divvy::sim {
namespace {

constexpr double kScale = 2;  // pixels for each point
constexpr double kLargest = 20'000;

class Canvas {
 public:
  Canvas(std::size_t width, std::size_t height)
      : width_(width), height_(height), pixels_(width * height * 3, 255) {}

  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t height() const { return height_; }
  [[nodiscard]] const std::uint8_t* row(std::size_t y) const { return &pixels_[y * width_ * 3]; }

  // All lines at once, so that nothing is painted twice where they meet.
  void paint(const std::vector<std::vector<Position>>& lines, double thickness, Rgb color) {
    const double reach = thickness / 2 + 1;
    double left = static_cast<double>(width_);
    double right = 0;
    double top = static_cast<double>(height_);
    double bottom = 0;
    for (const auto& line : lines) {
      for (const Position& point : line) {
        left = std::min(left, point.x - reach);
        right = std::max(right, point.x + reach);
        top = std::min(top, point.y - reach);
        bottom = std::max(bottom, point.y + reach);
      }
    }
    const Area area{pixel(left, width_), pixel(right, width_), pixel(top, height_),
                    pixel(bottom, height_)};
    if (area.left >= area.right || area.top >= area.bottom) return;
    std::vector<float> covered((area.right - area.left) * (area.bottom - area.top), 0);
    for (const auto& line : lines) {
      if (line.size() == 1) cover(area, covered, line[0], line[0], thickness);
      for (std::size_t i = 1; i < line.size(); ++i) {
        cover(area, covered, line[i - 1], line[i], thickness);
      }
    }
    blend(area, covered, color);
  }

 private:
  struct Area {
    std::size_t left = 0;
    std::size_t right = 0;
    std::size_t top = 0;
    std::size_t bottom = 0;
  };

  static std::size_t pixel(double at, std::size_t end) {
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(end)));
  }

  // How much of each pixel the piece from a to b covers, by how far away the pixel's middle is.
  static void cover(const Area& area, std::vector<float>& covered, Position a, Position b,
                    double thickness) {
    const double reach = thickness / 2 + 1;
    const auto clamp_to = [](double value, std::size_t first, std::size_t end) {
      return static_cast<std::size_t>(
          std::clamp(value, static_cast<double>(first), static_cast<double>(end)));
    };
    const std::size_t x_end = clamp_to(std::max(a.x, b.x) + reach + 1, area.left, area.right);
    const std::size_t y_end = clamp_to(std::max(a.y, b.y) + reach + 1, area.top, area.bottom);
    const double dx = b.x - a.x;
    const double dy = b.y - a.y;
    const double length = dx * dx + dy * dy;
    for (std::size_t y = clamp_to(std::min(a.y, b.y) - reach, area.top, area.bottom); y < y_end;
         ++y) {
      for (std::size_t x = clamp_to(std::min(a.x, b.x) - reach, area.left, area.right); x < x_end;
           ++x) {
        const double px = static_cast<double>(x) + 0.5 - a.x;
        const double py = static_cast<double>(y) + 0.5 - a.y;
        const double along = length == 0 ? 0 : std::clamp((px * dx + py * dy) / length, 0.0, 1.0);
        const double away = std::hypot(px - along * dx, py - along * dy);
        const auto part = static_cast<float>(std::clamp(thickness / 2 + 0.5 - away, 0.0, 1.0));
        float& so_far = covered[(y - area.top) * (area.right - area.left) + (x - area.left)];
        so_far = std::max(so_far, part);
      }
    }
  }

  void blend(const Area& area, const std::vector<float>& covered, Rgb color) {
    const auto mix = [](std::uint8_t& below, std::uint8_t above, float part) {
      below = static_cast<std::uint8_t>(
          std::lround(static_cast<float>(below) * (1 - part) + static_cast<float>(above) * part));
    };
    std::size_t i = 0;
    for (std::size_t y = area.top; y < area.bottom; ++y) {
      for (std::size_t x = area.left; x < area.right; ++x) {
        const float part = covered[i++];
        if (part <= 0) continue;
        std::uint8_t* const rgb = &pixels_[(y * width_ + x) * 3];
        mix(rgb[0], color.red, part);
        mix(rgb[1], color.green, part);
        mix(rgb[2], color.blue, part);
      }
    }
  }

  std::size_t width_;
  std::size_t height_;
  std::vector<std::uint8_t> pixels_;
};

// The pieces of a line that are drawn.
std::vector<std::vector<Position>> dashed(const std::vector<Position>& points,
                                          const std::vector<double>& dashes) {
  if (dashes.empty()) return {points};
  std::vector<std::vector<Position>> pieces{{points.front()}};
  std::size_t dash = 0;
  double left = dashes[0] * kScale;
  for (std::size_t i = 1; i < points.size(); ++i) {
    Position at = points[i - 1];
    for (;;) {
      const double rest = std::hypot(points[i].x - at.x, points[i].y - at.y);
      const bool drawn = dash % 2 == 0;
      if (rest <= left) {
        left -= rest;
        if (drawn) pieces.back().push_back(points[i]);
        break;
      }
      at = {at.x + (points[i].x - at.x) * left / rest, at.y + (points[i].y - at.y) * left / rest};
      if (drawn) {
        pieces.back().push_back(at);
      } else {
        pieces.push_back({at});
      }
      dash = (dash + 1) % dashes.size();
      left = dashes[dash] * kScale;
    }
  }
  return pieces;
}

void draw(Canvas& canvas, const Stroke& stroke) {
  if (stroke.points.empty()) return;
  std::vector<Position> points;
  points.reserve(stroke.points.size());
  for (const Position& point : stroke.points)
    points.push_back({point.x * kScale, point.y * kScale});
  // Thin straight lines lie on whole pixels, or they would be pale and twice as wide.
  if (stroke.width < 1.5) {
    for (Position& point : points) point = {std::floor(point.x) + 0.5, std::floor(point.y) + 0.5};
  }
  canvas.paint(dashed(points, stroke.dashes), stroke.width * kScale, stroke.color);
}

void draw(Canvas& canvas, const Label& label) {
  const PenLines pen = pen_lines(label.text, label.size * kScale);
  const double before = label.anchor == Anchor::kStart    ? 0
                        : label.anchor == Anchor::kMiddle ? pen.width / 2
                                                          : pen.width;
  std::vector<std::vector<Position>> lines = pen.lines;
  for (auto& line : lines) {
    for (Position& point : line) {
      const double along = point.x - before;
      const Position turned = label.upwards ? Position{point.y, -along} : Position{along, point.y};
      point = {label.at.x * kScale + turned.x, label.at.y * kScale + turned.y};
    }
  }
  const double pen_width = label.size * kScale * (label.bold ? 0.105 : 0.075);
  canvas.paint(lines, pen_width, label.color);
}

// libpng ends with longjmp when something is wrong; nothing with a destructor lives between.
bool write_png(const Canvas& canvas, std::string& png) {
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  if (writer == nullptr) return false;
  png_infop info = png_create_info_struct(writer);
  if (info == nullptr || setjmp(png_jmpbuf(writer)) != 0) {
    png_destroy_write_struct(&writer, &info);
    return false;
  }
  png_set_write_fn(
      writer, &png,
      [](png_structp source, png_bytep data, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(source))
            ->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(writer, info, static_cast<png_uint_32>(canvas.width()),
               static_cast<png_uint_32>(canvas.height()), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer, info);
  for (std::size_t y = 0; y < canvas.height(); ++y) png_write_row(writer, canvas.row(y));
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return true;
}

}  // namespace

Result<std::string> png_of(const Drawing& drawing) {
  const double width = std::ceil(drawing.width * kScale);
  const double height = std::ceil(drawing.height * kScale);
  DIVVY_CHECK(width >= 1 && height >= 1 && width <= kLargest && height <= kLargest,
              "a picture of {} x {} pixels", width, height);
  Canvas canvas(static_cast<std::size_t>(width), static_cast<std::size_t>(height));
  for (const auto& item : drawing.items) {
    std::visit([&](const auto& value) { draw(canvas, value); }, item);
  }
  std::string png;
  if (!write_png(canvas, png)) {
    return err(ErrorCode::kInternal, "the picture could not be compressed; write an .svg instead");
  }
  return png;
}

}  // namespace divvy::sim
