#include "sim/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include "base/text.h"
#include "sim/drawing.h"

namespace divvy::sim {
namespace {

constexpr Rgb kInk{40, 40, 40};
constexpr Rgb kFrame{120, 120, 120};
constexpr Rgb kGrid{226, 226, 226};

// The colours of Okabe and Ito without their yellow, which is too pale for a line on white.
constexpr std::array<Rgb, 7> kColors{{{0, 114, 178},
                                      {213, 94, 0},
                                      {0, 158, 115},
                                      {204, 121, 167},
                                      {230, 159, 0},
                                      {86, 180, 233},
                                      {60, 60, 60}}};

constexpr double kChartWidth = 520;
constexpr double kChartHeight = 380;
constexpr double kLeft = 74;  // of a chart: numbers and label of the y axis
constexpr double kRight = 22;
constexpr double kTop = 96;     // title of the picture and of the chart
constexpr double kBottom = 66;  // numbers and label of the x axis
constexpr double kLegendRow = 24;
constexpr double kLegendSample = 42;

std::vector<double> dashes_of(std::size_t series) {
  constexpr std::size_t kPatterns = 4;
  static const std::array<std::vector<double>, kPatterns> kDashes{
      {{}, {9, 4}, {2.5, 3.5}, {10, 3.5, 2.5, 3.5}}};
  return kDashes[series % kPatterns];
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

struct Axis {
  std::vector<double> ticks;
  double low = 0;
  double high = 1;

  [[nodiscard]] double part(double value) const { return (value - low) / (high - low); }
};

// From the first tick to the last; an axis that begins near zero begins at zero.
Axis value_axis(Range range) {
  if (!(range.low <= range.high)) range = {0, 1};
  if (range.low > 0 && range.low < 0.4 * range.high) range.low = 0;
  Axis axis;
  axis.ticks = round_ticks(range.low, range.high, 7);
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

// As long as there is something to see, with the ticks that lie on it.
Axis time_axis(Range range) {
  if (!(range.low < range.high)) return value_axis(range);
  Axis axis{round_ticks(range.low, range.high, 8), range.low, range.high};
  const double slack = (range.high - range.low) * 1e-9;
  std::erase_if(axis.ticks,
                [&](double tick) { return tick < range.low - slack || tick > range.high + slack; });
  return axis.ticks.size() < 2 ? value_axis(range) : axis;
}

bool drawable(const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::string tick_text(double value, double step) {
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9);
  // Minus zero is nobody's number.
  return fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
}

class Layout {
 public:
  Drawing operator()(const Figure& figure) {
    const std::size_t charts = std::max<std::size_t>(1, figure.charts.size());
    const double legend = legend_width(figure);
    drawing_.width = static_cast<double>(charts) * (kLeft + kChartWidth + kRight) + legend;
    drawing_.height = kTop + kChartHeight + kBottom;
    text({kLeft, 36}, figure.title, 20, Anchor::kStart, true);
    for (std::size_t i = 0; i < figure.charts.size(); ++i) {
      left_ = static_cast<double>(i) * (kLeft + kChartWidth + kRight) + kLeft;
      chart(figure.charts[i]);
    }
    if (!figure.charts.empty()) draw_legend(figure.charts.front(), drawing_.width - legend);
    return std::move(drawing_);
  }

 private:
  static double legend_width(const Figure& figure) {
    std::size_t longest = 0;
    for (const Chart& chart : figure.charts) {
      for (const Series& series : chart.series) longest = std::max(longest, series.name.size());
    }
    if (longest == 0) return 0;
    return kLegendSample + 18 + 7.6 * static_cast<double>(std::min<std::size_t>(longest, 40));
  }

  void line(std::vector<Position> points, Rgb color, double width,
            std::vector<double> dashes = {}) {
    drawing_.items.emplace_back(Stroke{std::move(points), color, width, std::move(dashes)});
  }
  void text(Position at, std::string words, double size, Anchor anchor, bool bold = false,
            bool upwards = false) {
    drawing_.items.emplace_back(Label{at, std::move(words), size, anchor, kInk, bold, upwards});
  }

  void chart(const Chart& chart) {
    Range xs;
    Range ys;
    for (const Series& series : chart.series) {
      for (const PlotPoint& point : series.points) {
        if (!drawable(point)) continue;
        xs.include(point.x);
        ys.include(point.y);
      }
    }
    const Axis x_axis = time_axis(xs);
    const Axis y_axis = value_axis(ys);
    const double bottom = kTop + kChartHeight;
    const auto at = [&](double x, double y) {
      return Position{left_ + kChartWidth * x_axis.part(x), bottom - kChartHeight * y_axis.part(y)};
    };

    const double x_step = x_axis.ticks[1] - x_axis.ticks[0];
    for (const double tick : x_axis.ticks) {
      line({at(tick, y_axis.low), at(tick, y_axis.high)}, kGrid, 1);
      text({at(tick, 0).x, bottom + 22}, tick_text(tick, x_step), 14, Anchor::kMiddle);
    }
    const double y_step = y_axis.ticks[1] - y_axis.ticks[0];
    for (const double tick : y_axis.ticks) {
      line({at(x_axis.low, tick), at(x_axis.high, tick)}, kGrid, 1);
      text({left_ - 10, at(0, tick).y + 5}, tick_text(tick, y_step), 14, Anchor::kEnd);
    }
    line({{left_, kTop}, {left_, bottom}, {left_ + kChartWidth, bottom}}, kFrame, 1.2);
    text({left_, kTop - 16}, chart.title, 16, Anchor::kStart, true);
    text({left_ + kChartWidth / 2, bottom + 50}, chart.x_label, 14, Anchor::kMiddle);
    text({left_ - 52, kTop + kChartHeight / 2}, chart.y_label, 14, Anchor::kMiddle, false, true);

    // The first series is drawn last: it is what the picture is about.
    for (std::size_t i = chart.series.size(); i-- > 0;) {
      std::vector<Position> points;
      for (const PlotPoint& point : chart.series[i].points) {
        if (drawable(point)) points.push_back(at(point.x, point.y));
      }
      if (!points.empty()) {
        line(std::move(points), kColors[i % kColors.size()], 2.2, dashes_of(i));
      }
    }
  }

  // In the order in which the lines end, so that it reads like the picture.
  void draw_legend(const Chart& chart, double left) {
    struct Entry {
      double end = -std::numeric_limits<double>::infinity();
      std::size_t series = 0;
    };
    std::vector<Entry> entries(chart.series.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto& points = chart.series[i].points;
      if (!points.empty() && drawable(points.back())) entries[i].end = points.back().y;
      entries[i].series = i;
    }
    std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
      return a.end != b.end ? a.end > b.end : a.series < b.series;
    });
    double y = kTop + 10;
    for (const auto& [end, i] : entries) {
      line({{left, y}, {left + kLegendSample, y}}, kColors[i % kColors.size()], 2.6, dashes_of(i));
      std::string name = chart.series[i].name;
      if (name.size() > 40) {
        name.resize(37);
        name += "...";
      }
      text({left + kLegendSample + 8, y + 5}, std::move(name), 14, Anchor::kStart);
      y += kLegendRow;
    }
  }

  Drawing drawing_;
  double left_ = 0;
};

}  // namespace

std::vector<double> round_ticks(double low, double high, std::size_t count) {
  if (!(high > low)) {
    const double half = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= half;
    high = low + 2 * half;
  }
  const double raw = (high - low) / static_cast<double>(std::max<std::size_t>(count, 2) - 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  const double first = std::floor(low / step + 1e-9);
  const double last = std::max(std::ceil(high / step - 1e-9), first + 1);
  std::vector<double> ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

Status check_picture_name(std::string_view path) {
  if (to_lower(path).ends_with(".svg")) return {};
  return err(ErrorCode::kInvalidArgument,
             "{}: pictures are written as SVG; end the file's name with .svg",
             escape_for_terminal(path));
}

std::string to_svg(const Figure& figure) { return svg_of(Layout()(figure)); }

Status write_figure(const Figure& figure, const std::string& path) {
  DIVVY_RETURN_IF_ERROR(check_picture_name(path));
  const std::string picture = to_svg(figure);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(picture.data(), static_cast<std::streamsize>(picture.size()));
  file.close();
  if (!file) {
    return err(ErrorCode::kIo, "{} could not be written; is there such a folder, and room on it?",
               escape_for_terminal(path));
  }
  return {};
}

}  // namespace divvy::sim
