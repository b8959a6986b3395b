#include "sim/plot.h"

#include <gtest/gtest.h>
#include <png.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "sim/drawing.h"
#include "sim/stroke_font.h"

namespace divvy::sim {
namespace {

Figure figure() {
  return {.title = "Two lines",
          .charts = {{.title = "A chart",
                      .x_label = "x",
                      .y_label = "y",
                      .series = {{"up", {{0, 0}, {10, 100}}}, {"down", {{0, 100}, {10, 0}}}}}}};
}

std::size_t count(const std::string& text, std::string_view piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
    ++found;
  }
  return found;
}

struct Image {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] std::array<int, 3> at(std::size_t x, std::size_t y) const {
    const std::size_t i = 3 * (y * width + x);
    return {pixels[i], pixels[i + 1], pixels[i + 2]};
  }
  [[nodiscard]] std::size_t not_white() const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < pixels.size(); i += 3) {
      found += pixels[i] != 255 || pixels[i + 1] != 255 || pixels[i + 2] != 255 ? 1 : 0;
    }
    return found;
  }
};

// With libpng's own reader.
Image decode(const std::string& png) {
  png_image reader{};
  reader.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&reader, png.data(), png.size()));
  reader.format = PNG_FORMAT_RGB;
  Image image{reader.width, reader.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(reader))};
  EXPECT_TRUE(png_image_finish_read(&reader, nullptr, image.pixels.data(), 0, nullptr));
  return image;
}

TEST(Plot, TicksAreRoundAndCoverTheRange) {
  EXPECT_EQ(round_ticks(0, 130, 7), (std::vector<double>{0, 50, 100, 150}));
  EXPECT_EQ(round_ticks(82, 96, 7), (std::vector<double>{80, 85, 90, 95, 100}));
  EXPECT_EQ(round_ticks(-3, 3, 7), (std::vector<double>{-3, -2, -1, 0, 1, 2, 3}));
  for (const auto& [low, high] :
       {std::pair{0.0, 0.0}, {5.0, 5.0}, {1e-9, 2e-9}, {-1e12, 1e12}, {0.1, 0.3}}) {
    const std::vector<double> ticks = round_ticks(low, high, 7);
    ASSERT_GE(ticks.size(), 2U) << low << " " << high;
    EXPECT_LE(ticks.size(), 16U) << low << " " << high;
    EXPECT_LE(ticks.front(), low + 1e-9 * std::abs(low));
    EXPECT_GE(ticks.back(), high - 1e-9 * std::abs(high));
  }
}

TEST(Plot, SvgHasTitlesLabelsAndALineForEachSeries) {
  const std::string svg = to_svg(figure());
  EXPECT_TRUE(svg.starts_with("<svg xmlns="));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* text : {">Two lines<", ">A chart<", ">x<", ">y<", ">up<", ">down<", ">100<"}) {
    EXPECT_EQ(count(svg, text), 1U) << text;
  }
  // Each colour twice: the line, and its sample in the legend.
  EXPECT_EQ(count(svg, "stroke=\"#0072b2\""), 2U);
  EXPECT_EQ(count(svg, "stroke=\"#d55e00\""), 2U);
}

TEST(Plot, SvgIsNotBrokenByNames) {
  Figure evil = figure();
  evil.charts[0].series[0].name = "</svg><script>&\x01\xff";
  const std::string svg = to_svg(evil);
  EXPECT_EQ(count(svg, "<script>"), 0U);
  EXPECT_EQ(count(svg, "&lt;/svg&gt;&lt;script&gt;&amp;??"), 1U);
}

TEST(Plot, ManySeriesAllLookDifferent) {
  Figure many = figure();
  many.charts[0].series.clear();
  for (int i = 0; i < 28; ++i) {
    many.charts[0].series.push_back({"s" + std::to_string(i), {{0, 0}, {1, 1.0 * i}}});
  }
  const std::string svg = to_svg(many);
  std::set<std::string> looks;
  for (std::size_t at = svg.find("stroke-width=\"2.6\""); at != std::string::npos;
       at = svg.find("stroke-width=\"2.6\"", at + 1)) {
    const std::size_t begin = svg.rfind("stroke=\"", at);
    looks.insert(svg.substr(begin, svg.find("/>", at) - begin));
  }
  EXPECT_EQ(looks.size(), 28U);
}

TEST(Plot, PngCanBeReadAndShowsTheLines) {
  const auto png = to_png(figure());
  ASSERT_TRUE(png) << png.error().message;
  const Image image = decode(*png);
  EXPECT_GT(image.width, 1000U);
  EXPECT_GT(image.height, 800U);
  bool blue = false;
  bool orange = false;
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      blue = blue || image.at(x, y) == std::array{0, 114, 178};
      orange = orange || image.at(x, y) == std::array{213, 94, 0};
    }
  }
  EXPECT_TRUE(blue);
  EXPECT_TRUE(orange);
}

TEST(Plot, DrawsNothingWhereThereIsNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(to_png({.title = "", .charts = {}}));
  Figure empty = figure();
  empty.charts[0].series = {
      {"nothing", {}}, {"no numbers", {{nan, 1}, {1, nan}, {INFINITY, 2}}}, {"a point", {{3, 4}}}};
  EXPECT_TRUE(to_png(empty));
  EXPECT_NE(to_svg(empty).find("a point"), std::string::npos);
  EXPECT_EQ(to_svg(empty).find("nan"), std::string::npos);
  EXPECT_EQ(to_svg(empty).find("inf"), std::string::npos);
}

TEST(Plot, WritesTheFormatThatTheNameEndsWith) {
  std::string name = (std::filesystem::temp_directory_path() / "divvy-plot-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  const std::string svg = (folder / "a.svg").string();
  const std::string png = (folder / "a.PNG").string();
  EXPECT_TRUE(write_figure(figure(), svg));
  EXPECT_TRUE(write_figure(figure(), png));
  const auto begin = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(4, ' ');
    file.read(text.data(), 4);
    return text;
  };
  EXPECT_EQ(begin(svg), "<svg");
  EXPECT_EQ(begin(png), "\x89PNG");
  EXPECT_FALSE(write_figure(figure(), (folder / "a.gif").string()));
  const Status nowhere = write_figure(figure(), (folder / "none/a.svg").string());
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
  std::filesystem::remove_all(folder);
}

TEST(Drawing, LinesHaveTheirWidthAndPlace) {
  Drawing drawing{.width = 20, .height = 10, .items = {}};
  drawing.items.emplace_back(Stroke{{{2, 5}, {18, 5}}, {255, 0, 0}, 2, {}});
  const Image image = decode(png_of(drawing).value());
  EXPECT_EQ(image.width, 40U);
  EXPECT_EQ(image.at(20, 10), (std::array{255, 0, 0}));
  EXPECT_EQ(image.at(20, 9), (std::array{255, 0, 0}));
  EXPECT_EQ(image.at(20, 4), (std::array{255, 255, 255}));
  EXPECT_EQ(image.at(38, 10), (std::array{255, 255, 255}));
}

TEST(Drawing, DashesLeaveGapsAndNothingIsDrawnOutside) {
  Drawing solid{.width = 40, .height = 10, .items = {}};
  solid.items.emplace_back(Stroke{{{-50, 5}, {90, 5}}, {0, 0, 0}, 2, {}});
  Drawing dashed = solid;
  std::get<Stroke>(dashed.items[0]).dashes = {4, 4};
  const std::size_t all = decode(png_of(solid).value()).not_white();
  const std::size_t some = decode(png_of(dashed).value()).not_white();
  EXPECT_LT(some, all);
  EXPECT_GT(some, all / 4);
}

TEST(StrokeFont, KnowsEveryLetterThatLabelsUse) {
  const PenLines box = pen_lines("\u00e9", 24);
  for (char letter = '!'; letter <= '~'; ++letter) {
    if (std::string_view("`^{}\\").find(letter) != std::string_view::npos) continue;
    const PenLines drawn = pen_lines(std::string(1, letter), 24);
    ASSERT_FALSE(drawn.lines.empty()) << letter;
    const bool is_box = drawn.lines.size() == 1 && drawn.lines[0].size() == box.lines[0].size() &&
                        drawn.width == box.width;
    EXPECT_FALSE(is_box) << letter;
    for (const auto& line : drawn.lines) {
      for (const Position& point : line) {
        EXPECT_GE(point.x, 0) << letter;
        EXPECT_LE(point.x, drawn.width) << letter;
        EXPECT_GE(point.y, -18) << letter;
        EXPECT_LE(point.y, 6) << letter;
      }
    }
  }
}

TEST(StrokeFont, WidthGrowsWithTextAndSize) {
  EXPECT_EQ(pen_lines("", 24).width, 0);
  EXPECT_GT(pen_lines("ab", 24).width, pen_lines("a", 24).width);
  EXPECT_DOUBLE_EQ(pen_lines("ab", 48).width, 2 * pen_lines("ab", 24).width);
  EXPECT_EQ(pen_lines("\xff\xfe", 24).lines.size(), 2U);
}

}  // namespace
}  // namespace divvy::sim
