#include "sim/plot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "base/temporary_folder.h"
#include "sim/drawing.h"

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

TEST(Plot, DrawsNothingWhereThereIsNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(to_svg({.title = "", .charts = {}}).starts_with("<svg"));
  Figure empty = figure();
  empty.charts[0].series = {
      {"nothing", {}}, {"no numbers", {{nan, 1}, {1, nan}, {INFINITY, 2}}}, {"a point", {{3, 4}}}};
  EXPECT_NE(to_svg(empty).find("a point"), std::string::npos);
  EXPECT_EQ(to_svg(empty).find("nan"), std::string::npos);
  EXPECT_EQ(to_svg(empty).find("inf"), std::string::npos);
}

TEST(Plot, WritesSvgFilesOnly) {
  const TemporaryFolder folder;
  const std::string svg = (folder / "a.svg").string();
  EXPECT_TRUE(write_figure(figure(), svg));
  EXPECT_TRUE(write_figure(figure(), (folder / "b.SVG").string()));
  const auto begin = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(4, ' ');
    file.read(text.data(), 4);
    return text;
  };
  EXPECT_EQ(begin(svg), "<svg");
  EXPECT_FALSE(write_figure(figure(), (folder / "a.png").string()));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.png"));
  const Status nowhere = write_figure(figure(), (folder / "none/a.svg").string());
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
}

TEST(Drawing, StrokesKeepTheirWidthColourAndDashes) {
  Drawing drawing{.width = 40, .height = 10, .items = {}};
  drawing.items.emplace_back(Stroke{{{2, 5}, {18, 5}}, {255, 0, 0}, 2, {4, 3}});
  const std::string svg = svg_of(drawing);
  EXPECT_EQ(count(svg, "stroke=\"#ff0000\""), 1U) << svg;
  EXPECT_EQ(count(svg, "stroke-width=\"2\""), 1U) << svg;
  EXPECT_EQ(count(svg, "stroke-dasharray=\"4 3\""), 1U) << svg;
}

}  // namespace
}  // namespace divvy::sim
