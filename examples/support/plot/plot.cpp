#include "support/plot/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "support/plot/axis.h"
#include "support/plot/canvas.h"

namespace linnet::examples {
namespace {

constexpr double kWidth = 800;  // points
constexpr double kHeight = 480;
constexpr double kLegendKey = 34;  // from the plot's edge to the text of a label
constexpr double kLegendStep = 17;
constexpr int kTicksX = 7;
constexpr int kTicksY = 6;
constexpr double kLargestCircle = 34;  // radius in points
constexpr double kCircleMargin = 0.12;
constexpr size_t kMostMarked = 32;  // up to this number, all points are marked; otherwise about kMarks
constexpr size_t kMarks = 8;

const TextStyle kTickLabel = {.size = 10.5, .color = kSoftInk};
const TextStyle kLegend = {.size = 11.5};

struct Point {
  double x, y;
};

using Points = std::vector<std::optional<Point>>;

struct Box {
  double left, top, right, bottom;
};

// The colours of Okabe and Ito (2008) and four more: one for each mechanism. No colour-blind reader can tell so many
// apart, so each has a marker of its own too.
constexpr std::array<Color, 12> kColors = {{{0.00, 0.45, 0.70},    // blue
                                            {0.84, 0.37, 0.00},    // vermilion
                                            {0.00, 0.62, 0.45},    // bluish green
                                            {0.80, 0.47, 0.65},    // reddish purple
                                            {0.90, 0.62, 0.00},    // orange
                                            {0.34, 0.71, 0.91},    // sky blue
                                            {0.00, 0.00, 0.00},    // black
                                            {0.94, 0.89, 0.26},    // yellow
                                            {0.45, 0.28, 0.12},    // brown
                                            {0.50, 0.53, 0.58},    // grey
                                            {0.38, 0.20, 0.60},    // violet
                                            {0.72, 0.10, 0.30}}};  // crimson

// The markers are polygons, with a corner at the angle `turn`, and every second corner at a part of the radius.
struct Marker {
  int corners;
  double turn, every_second;
};
constexpr double kUp = -std::numbers::pi / 2, kRight = 0, kDown = std::numbers::pi / 2;
constexpr std::array<Marker, 6> kMarkers = {{{36, kUp, 1},                  // a circle
                                             {4, std::numbers::pi / 4, 1},  // a square
                                             {3, kUp, 1},                   // a triangle
                                             {4, kRight, 1},                // a diamond
                                             {3, kDown, 1},                 // a triangle upside down
                                             {10, kUp, 0.45}}};             // a star

// How a series is drawn: the second half of the markers is hollow, and lines are dashed once colour and marker
// repeat.
struct Stroke {
  size_t index;
  bool light;

  Stroke(const Series& series, size_t position) : index(series.color.value_or(position)), light(series.light) {}

  Color color() const { return kColors[index % kColors.size()]; }
  void set(const Canvas& canvas) const {
    const std::array<double, 2> dash = {6, 4};
    canvas.set_color(color(), light ? 0.45 : 1);
    cairo_set_dash(canvas.cairo(), dash.data(), index / kColors.size() % 2 == 1 ? 2 : 0, 0);
    cairo_set_line_width(canvas.cairo(), light ? 1 : 2);
  }
  void mark(const Canvas& canvas, double x, double y) const;
};

bool can_show_point(const LineChart& chart, const Series& series, size_t i) {
  return can_show(series.x[i], chart.log_x) && can_show(series.y[i], chart.log_y);
}

// Only points with both coordinates count, so that a gap does not stretch the other axis.
std::pair<Axis, Axis> fit_axes(const LineChart& chart) {
  std::vector<double> xs, ys;
  for (const Series& series : chart.series) {
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!can_show_point(chart, series, i)) continue;
      xs.push_back(series.x[i]);
      ys.push_back(series.y[i]);
    }
  }
  const bool circles = std::ranges::any_of(chart.series, [](const Series& s) { return !s.areas.empty(); });
  if (circles) return {fit_axis(xs, chart.log_x, kCircleMargin), fit_axis(ys, chart.log_y, kCircleMargin)};
  return {fit_axis(xs, chart.log_x, chart.log_x ? 0.02 : 0), fit_axis(ys, chart.log_y, 0.05)};
}

struct LegendEntry {
  size_t index;  // the index of the series
  Stroke stroke;
  std::string label;
};

std::vector<LegendEntry> make_legend(const Canvas& canvas, const LineChart& chart) {
  std::vector<LegendEntry> legend;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    if (series.label.empty()) continue;
    bool any = false;
    for (size_t i = 0; i < series.x.size(); ++i) any = any || can_show_point(chart, series, i);
    const std::string label = canvas.fit_text(series.label, 0.3 * kWidth, kLegend);
    legend.push_back({s, Stroke(series, s), any ? label : label + " (no data)"});
  }
  return legend;
}

// The two axes and the part of the page where they are.
struct Scene {
  Axis x_axis, y_axis;
  Box plot{};

  double x(double value) const { return plot.left + x_axis.fraction(value) * (plot.right - plot.left); }
  double y(double value) const { return plot.bottom - y_axis.fraction(value) * (plot.bottom - plot.top); }

  // The points of a series on the page; empty where there is a gap.
  Points points(const LineChart& chart, const Series& series) const {
    Points result(series.x.size());
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (can_show_point(chart, series, i)) result[i] = Point{x(series.x[i]), y(series.y[i])};
    }
    return result;
  }
};

Scene lay_out(const Canvas& canvas, const LineChart& chart, const std::vector<LegendEntry>& legend) {
  Scene scene;
  std::tie(scene.x_axis, scene.y_axis) = fit_axes(chart);
  double tick_width = 0;
  for (const Tick& tick : scene.y_axis.ticks(kTicksY)) {
    tick_width = std::max(tick_width, canvas.text_width(tick.label, kTickLabel));
  }
  double legend_width = 0;
  for (const LegendEntry& entry : legend) {
    legend_width = std::max(legend_width, kLegendKey + canvas.text_width(entry.label, kLegend));
  }
  scene.plot = {.left = kPageEdge + (chart.y_label.empty() ? 0 : 22) + tick_width + 8,
                .top = Canvas::heading_bottom(chart.title, chart.subtitle) + 6,
                .right = kWidth - kPageEdge - legend_width,
                .bottom = kHeight - kPageEdge - (chart.x_label.empty() ? 14 : 36)};
  return scene;
}

void draw_axes(const Canvas& canvas, const Scene& scene, const LineChart& chart) {
  const Box& plot = scene.plot;
  TextStyle style = kTickLabel;
  const auto grid_line = [&](const Tick& tick, double x0, double y0, double x1, double y1) {
    canvas.line(x0, y0, x1, y1, kGridLine, tick.label.empty() ? 0.4 : 0.9);
  };

  style.align = Align::right;
  for (const Tick& tick : scene.y_axis.ticks(kTicksY)) {
    const double y = scene.y(tick.value);
    grid_line(tick, plot.left, y, plot.right, y);
    canvas.text(plot.left - 8, y, tick.label, style);
  }
  style.align = Align::center;
  for (const Tick& tick : scene.x_axis.ticks(kTicksX)) {
    const double x = scene.x(tick.value);
    grid_line(tick, x, plot.top, x, plot.bottom);
    canvas.text(x, plot.bottom + 14, tick.label, style);
    if (!tick.label.empty()) canvas.line(x, plot.bottom, x, plot.bottom + 4, kAxisLine, 1);
  }
  canvas.line(plot.left, plot.bottom, plot.right, plot.bottom, kAxisLine, 1);

  canvas.text((plot.left + plot.right) / 2, plot.bottom + 36, chart.x_label, kAxisLabel);
  TextStyle upwards = kAxisLabel;
  upwards.upwards = true;
  canvas.text(kPageEdge + 4, (plot.top + plot.bottom) / 2, chart.y_label, upwards);
}

void Stroke::mark(const Canvas& canvas, double x, double y) const {
  const auto& [corners, turn, every_second] = kMarkers[index % kMarkers.size()];
  const bool is_hollow = index / kMarkers.size() % 2 == 1;
  cairo_t* cr = canvas.cairo();
  cairo_new_path(cr);
  for (int i = 0; i < corners; ++i) {
    const double angle = turn + 2 * std::numbers::pi * i / corners;
    const double radius = (corners == 36 ? 3 : 4.2) * (i % 2 == 1 ? every_second : 1);
    cairo_line_to(cr, x + radius * std::cos(angle), y + radius * std::sin(angle));
  }
  cairo_close_path(cr);
  canvas.set_color(is_hollow ? Color{1, 1, 1} : color());
  cairo_fill_preserve(cr);
  canvas.set_color(color());
  cairo_set_line_width(cr, is_hollow ? 1.4 : 0.1);
  cairo_stroke(cr);
}

// Circles with a rim, so that those below others stay visible.
void draw_circles(const Canvas& canvas, const Points& points, const Series& series, const Stroke& stroke) {
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i]) continue;
    cairo_arc(canvas.cairo(), points[i]->x, points[i]->y, kLargestCircle * std::sqrt(series.areas[i]), 0,
              2 * std::numbers::pi);
    canvas.set_color(stroke.color(), 0.25);
    cairo_fill_preserve(canvas.cairo());
    stroke.set(canvas);
    cairo_stroke(canvas.cairo());
    cairo_set_dash(canvas.cairo(), nullptr, 0, 0);
    stroke.mark(canvas, points[i]->x, points[i]->y);
  }
}

void draw_series(const Canvas& canvas, const Points& points, const Stroke& stroke) {
  cairo_t* cr = canvas.cairo();
  stroke.set(canvas);
  cairo_new_path(cr);
  for (const auto& point : points) {
    if (!point) {
      cairo_new_sub_path(cr);
    } else {
      cairo_line_to(cr, point->x, point->y);  // begins a line after a gap
    }
  }
  cairo_stroke(cr);
  cairo_set_dash(cr, nullptr, 0, 0);

  for (size_t i = 0; i < points.size(); ++i) {
    const bool before = i > 0 && points[i - 1];
    const bool after = i + 1 < points.size() && points[i + 1];
    const bool alone = !before && !after;  // no line goes through it
    const bool marked = points.size() <= kMostMarked || (!stroke.light && i % (points.size() / kMarks) == 0);
    if (points[i] && (alone || marked)) stroke.mark(canvas, points[i]->x, points[i]->y);
  }
}

// Moves the labels that would stand closer than `step` apart as little as possible (least squares), within
// [top, bottom]. `wanted` is ascending. With i · step taken off, "at least a step apart" becomes "ascending":
// an isotonic regression, solved by pooling neighbours that violate it.
std::vector<double> spread_labels(const std::vector<double>& wanted, double step, double top, double bottom) {
  struct Pool {
    double sum;
    size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  const auto offset = [step](size_t i) { return static_cast<double>(i) * step; };
  std::vector<Pool> pools;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Pool pool{wanted[i] - offset(i), 1};
    for (; !pools.empty() && pools.back().mean() > pool.mean(); pools.pop_back()) {
      pool = {pool.sum + pools.back().sum, pool.count + pools.back().count};
    }
    pools.push_back(pool);
  }
  const double lowest = bottom - offset(wanted.size() - 1);
  std::vector<double> placed;
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.count; ++i) {
      placed.push_back(std::min(std::max(pool.mean(), top), lowest) + offset(placed.size()));
    }
  }
  return placed;
}

// Puts each label near the height of its line's end, in the order of these heights. `ends` holds the last point of
// each series.
void draw_legend(const Canvas& canvas, const Box& plot, std::vector<LegendEntry> entries, const Points& ends) {
  if (entries.empty()) return;
  const auto height = [&](const LegendEntry& entry) {
    return ends[entry.index] ? ends[entry.index]->y : plot.bottom;
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const auto& a, const auto& b) { return height(a) < height(b); });
  std::vector<double> wanted;
  wanted.reserve(entries.size());
  for (const LegendEntry& entry : entries) wanted.push_back(height(entry));
  const double step = std::min(kLegendStep, (plot.bottom - plot.top) / static_cast<double>(entries.size()));
  const std::vector<double> ys = spread_labels(wanted, step, plot.top, plot.bottom);

  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [index, stroke, label] = entries[i];
    const auto& end = ends[index];
    cairo_t* cr = canvas.cairo();
    if (end && end->x > plot.right - 12) {  // a thin line from the series' end to its label
      canvas.line(end->x + 5, end->y, plot.right + 14, ys[i], kAxisLine, 0.6);
    }
    stroke.set(canvas);
    cairo_move_to(cr, plot.right + 14, ys[i]);
    cairo_line_to(cr, plot.right + kLegendKey - 6, ys[i]);
    cairo_stroke(cr);
    cairo_set_dash(cr, nullptr, 0, 0);
    if (!stroke.light) stroke.mark(canvas, plot.right + (14 + kLegendKey - 6) / 2, ys[i]);
    canvas.text(plot.right + kLegendKey, ys[i], label, kLegend);
  }
}

}  // namespace

void write_png(const LineChart& chart, const std::filesystem::path& path) {
  for (const Series& series : chart.series) {
    if (series.x.size() == series.y.size()) {
      if (series.areas.empty() || series.areas.size() == series.x.size()) continue;
      throw std::runtime_error(fmt::format("{}: the series '{}' has {} points but {} areas; give one for each",
                                           path.string(), series.label, series.x.size(), series.areas.size()));
    }
    throw std::runtime_error(fmt::format("{}: the series '{}' has {} x but {} y; give one y for each x",
                                         path.string(), series.label, series.x.size(), series.y.size()));
  }

  const Canvas canvas(path, kWidth, kHeight);
  const std::vector<LegendEntry> legend = make_legend(canvas, chart);
  const Scene scene = lay_out(canvas, chart, legend);
  canvas.heading(chart.title, chart.subtitle);
  draw_axes(canvas, scene, chart);

  Points ends;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Points points = scene.points(chart, chart.series[i]);
    const Series& series = chart.series[i];
    if (series.areas.empty()) {
      draw_series(canvas, points, Stroke(series, i));
    } else {
      draw_circles(canvas, points, series, Stroke(series, i));
    }
    const auto last = std::find_if(points.rbegin(), points.rend(), [](const auto& p) { return p.has_value(); });
    ends.push_back(last == points.rend() ? std::nullopt : *last);
  }
  draw_legend(canvas, scene.plot, legend, ends);
  if (std::none_of(ends.begin(), ends.end(), [](const auto& end) { return end.has_value(); })) {
    const Box& plot = scene.plot;
    canvas.text((plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2, "no data", kAxisLabel);
  }
  canvas.write_png();
}

}  // namespace linnet::examples
