#include "support/plot/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "support/plot/axis.h"

namespace linnet::examples {
namespace {

constexpr double kGap = 16;  // points between maps
constexpr double kTickGap = 5;
constexpr double kTickSize = 9;  // font sizes
constexpr double kSmallestTickSize = 5;
constexpr double kMapTitleRoom = 18;
constexpr double kAxisLabelRoom = 20;
constexpr double kBarWidth = 13;
constexpr int kBarTicks = 5;
constexpr double kShortestBar = 120;
constexpr double kLongestBar = 380;
constexpr Color kMasked = {0.88, 0.88, 0.88};

const TextStyle kMapTitle = {.size = 11.5, .align = Align::center};

struct Box {
  double left, top, width, height;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

struct CellTick {
  int64_t index;
  std::string label;
};

// The ticks of a map's rows or columns, which are `cell` points wide.
struct CellTicks {
  TextStyle style;
  std::vector<CellTick> ticks;
  double width = 0;  // of the widest label

  CellTicks(const Canvas& canvas, const std::vector<std::string>& labels, int64_t count, double cell) {
    if (labels.empty()) {
      add_indices(count, cell);
    } else {
      add_labels(canvas, labels, cell);
    }
    for (const CellTick& tick : ticks) width = std::max(width, canvas.text_width(tick.label, style));
  }

 private:
  void add_indices(int64_t count, double cell) {
    style = {.size = kTickSize, .color = kSoftInk};
    const Axis axis{0, std::max(1.0, static_cast<double>(count - 1)), false};
    const int wanted = std::clamp(static_cast<int>(cell * static_cast<double>(count) / 36), 1, 5);
    for (const Tick& tick : axis.ticks(wanted)) {
      const int64_t index = std::llround(tick.value);
      if (static_cast<double>(index) == tick.value && index < count) ticks.push_back({index, tick.label});
    }
  }

  // Adds every label, in smaller letters for narrow cells. If they still do not fit, adds every second, third, …
  void add_labels(const Canvas& canvas, const std::vector<std::string>& labels, double cell) {
    constexpr double kLongest = 90;
    style = {.size = std::clamp(0.85 * cell, kSmallestTickSize, kTickSize), .color = kSoftInk};
    const auto stride = static_cast<size_t>(std::ceil(style.size / cell));
    for (size_t i = 0; i < labels.size(); i += stride) {
      const std::string visible = labels[i] == " " ? "·" : labels[i] == "\n" ? "↵" : labels[i];
      ticks.push_back({static_cast<int64_t>(i), canvas.fit_text(visible, kLongest, style)});
    }
  }
};

// A map with the size and ticks that it is drawn with.
struct Panel {
  const HeatMap* map;
  double width, height;
  CellTicks x_ticks, y_ticks;

  double cell_width() const { return width / static_cast<double>(map->cols); }
  double cell_height() const { return height / static_cast<double>(map->rows); }
};

// Fits square cells into a square of the given side. Maps of very few rows or columns are drawn thicker.
Panel make_panel(const Canvas& canvas, const HeatMap& map, double side) {
  constexpr double kThinnest = 0.12;
  const auto rows = static_cast<double>(map.rows);
  const auto cols = static_cast<double>(map.cols);
  const double width = side * std::clamp(cols / rows, kThinnest, 1.0);
  const double height = side * std::clamp(rows / cols, kThinnest, 1.0);
  Panel panel{&map, width, height, CellTicks(canvas, map.x_ticks, map.cols, width / cols),
              CellTicks(canvas, map.y_ticks, map.rows, height / rows)};
  panel.y_ticks.style.align = Align::right;
  // Labels of columns that do not fit side by side are turned.
  panel.x_ticks.style.upwards = !map.x_ticks.empty() && panel.x_ticks.width > std::max(panel.cell_width(), kTickSize);
  panel.x_ticks.style.align = panel.x_ticks.style.upwards ? Align::right : Align::center;
  return panel;
}

// The positions of all maps, on a grid that fits the largest map and the widest ticks and titles.
struct Layout {
  int64_t columns;
  std::vector<Panel> panels;
  double step_x, step_y;  // from one map to the next
  Box cells;              // from the first map's first cell to the last one's last
  Box bar;
  double bar_label_x, x_label_y;
  double page_width, page_height;
};

Layout lay_out(const Canvas& canvas, const HeatMapGrid& grid, const Axis& scale) {
  const auto count = static_cast<int64_t>(grid.maps.size());
  const int64_t square = std::llround(std::ceil(std::sqrt(static_cast<double>(count))));
  Layout layout{};
  layout.columns = std::min(count, grid.columns > 0 ? grid.columns : square);
  const int64_t rows = (count + layout.columns - 1) / layout.columns;
  const double side = std::clamp(840 / static_cast<double>(layout.columns), 150.0, 380.0);

  double map_width = 0, map_height = 0, y_tick_room = 0, x_tick_room = 0, title_room = 0;
  for (const HeatMap& map : grid.maps) {
    const Panel& panel = layout.panels.emplace_back(make_panel(canvas, map, side));
    const CellTicks& x_ticks = panel.x_ticks;
    map_width = std::max(map_width, panel.width);
    map_height = std::max(map_height, panel.height);
    y_tick_room = std::max(y_tick_room, kTickGap + panel.y_ticks.width);
    x_tick_room = std::max(x_tick_room, kTickGap + (x_ticks.style.upwards ? x_ticks.width : x_ticks.style.size));
    if (!map.title.empty()) title_room = kMapTitleRoom;
  }
  layout.step_x = y_tick_room + map_width + kGap;
  layout.step_y = title_room + map_height + x_tick_room + kGap;
  Box& cells = layout.cells;
  cells = {.left = kPageEdge + (grid.y_label.empty() ? 0 : kAxisLabelRoom) + y_tick_room,
           .top = Canvas::heading_bottom(grid.title, grid.subtitle) + 4 + title_room,
           .width = static_cast<double>(layout.columns - 1) * layout.step_x + map_width,
           .height = static_cast<double>(rows - 1) * layout.step_y + map_height};

  const double bar_height = std::clamp(cells.height, kShortestBar, kLongestBar);
  layout.bar = {cells.right() + 22, cells.top + std::max(0.0, (cells.height - bar_height) / 2), kBarWidth,
                bar_height};
  double bar_tick_width = 0;
  for (const Tick& tick : scale.ticks(kBarTicks)) {
    bar_tick_width = std::max(bar_tick_width, canvas.text_width(tick.label, {.size = kTickSize}));
  }
  layout.bar_label_x = layout.bar.right() + kTickGap + bar_tick_width + 16;
  layout.x_label_y = cells.bottom() + x_tick_room + kAxisLabelRoom - 4;
  layout.page_width = layout.bar_label_x + kPageEdge;
  layout.page_height =
      std::max(grid.x_label.empty() ? cells.bottom() + x_tick_room : layout.x_label_y, layout.bar.bottom()) +
      kPageEdge;
  return layout;
}

// The colour scale. It begins at 0, so that pictures can be compared, or at the lowest value if that is negative.
Axis fit_scale(const HeatMapGrid& grid) {
  std::vector<double> values{0};
  for (const HeatMap& map : grid.maps) values.insert(values.end(), map.values.begin(), map.values.end());
  return fit_axis(values, false, 0);
}

// Equal cells in a box, and its outline.
void draw_cells(const Canvas& canvas, const Box& box, int64_t rows, int64_t cols, const Canvas::CellColor& color_of) {
  canvas.cells(box.left, box.top, box.width, box.height, rows, cols, color_of);
  cairo_t* cr = canvas.cairo();
  cairo_rectangle(cr, box.left, box.top, box.width, box.height);
  canvas.set_color(kAxisLine);
  cairo_set_line_width(cr, 0.6);
  cairo_stroke(cr);
}

void draw_panel(const Canvas& canvas, const Panel& panel, const Axis& scale, double left, double top) {
  const HeatMap& map = *panel.map;
  const Box box{left, top, panel.width, panel.height};
  draw_cells(canvas, box, map.rows, map.cols, [&](int64_t r, int64_t c) {
    const double value = map.values[static_cast<size_t>(r * map.cols + c)];
    return can_show(value, false) ? heat_color(scale.fraction(value)) : kMasked;
  });
  canvas.text(left + box.width / 2, top - kMapTitleRoom / 2, canvas.fit_text(map.title, box.width, kMapTitle),
              kMapTitle);
  for (const CellTick& tick : panel.y_ticks.ticks) {
    const double y = top + (static_cast<double>(tick.index) + 0.5) * panel.cell_height();
    canvas.text(left - kTickGap, y, tick.label, panel.y_ticks.style);
  }
  const TextStyle& style = panel.x_ticks.style;
  for (const CellTick& tick : panel.x_ticks.ticks) {
    const double x = left + (static_cast<double>(tick.index) + 0.5) * panel.cell_width();
    canvas.text(x, box.bottom() + kTickGap + (style.upwards ? 0 : style.size / 2), tick.label, style);
  }
}

void draw_color_bar(const Canvas& canvas, const Box& bar, const Axis& scale) {
  constexpr int64_t kShades = 256;
  draw_cells(canvas, bar, kShades, 1,
             [](int64_t r, int64_t) { return heat_color(1 - static_cast<double>(r) / (kShades - 1)); });
  for (const Tick& tick : scale.ticks(kBarTicks)) {
    const double y = bar.bottom() - scale.fraction(tick.value) * bar.height;
    canvas.line(bar.right(), y, bar.right() + 3, y, kAxisLine, 0.8);
    canvas.text(bar.right() + kTickGap + 1, y, tick.label, {.size = kTickSize, .color = kSoftInk});
  }
}

void check(const HeatMapGrid& grid, const std::filesystem::path& path) {
  if (grid.maps.empty()) {
    throw std::runtime_error(fmt::format("{}: no heat map to draw; give at least one", path.string()));
  }
  for (const HeatMap& map : grid.maps) {
    const auto expect = [&](const char* what, size_t count, int64_t expected, bool optional) {
      if (static_cast<int64_t>(count) == expected || (optional && count == 0)) return;
      throw std::runtime_error(fmt::format("{}: the heat map '{}' of {} rows and {} columns has {} {}; give {}{}",
                                           path.string(), map.title, map.rows, map.cols, count, what, expected,
                                           optional ? ", or none" : ""));
    };
    if (map.rows < 1 || map.cols < 1) {
      throw std::runtime_error(
          fmt::format("{}: the heat map '{}' has {} rows and {} columns; give at least one of each", path.string(),
                      map.title, map.rows, map.cols));
    }
    expect("values", map.values.size(), map.rows * map.cols, false);
    expect("x_ticks", map.x_ticks.size(), map.cols, true);
    expect("y_ticks", map.y_ticks.size(), map.rows, true);
  }
}

}  // namespace

Color heat_color(double fraction) {
  // A path through OKLCh (Ottosson 2020): lightness rises evenly while the hue turns from violet to yellow;
  // the chroma stays within what sRGB can show everywhere on the path.
  const double t = std::clamp(fraction, 0.0, 1.0);
  const double lightness = 0.28 + 0.65 * t;
  const double chroma = 0.094 + 0.26 * (t - 0.42) * (t - 0.42);
  const double hue = (305 - 200 * t) * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue);
  const double b = chroma * std::sin(hue);
  const auto cube = [](double v) { return v * v * v; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  const auto gamma = [](double v) { return v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055; };
  return {gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          gamma(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

void write_png(const HeatMapGrid& grid, const std::filesystem::path& path) {
  check(grid, path);
  const Axis scale = fit_scale(grid);
  const Layout layout = lay_out(Canvas(path, 1, 1), grid, scale);

  const Canvas canvas(path, layout.page_width, layout.page_height);
  canvas.heading(grid.title, grid.subtitle);
  for (size_t i = 0; i < layout.panels.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / layout.columns;
    const int64_t column = static_cast<int64_t>(i) % layout.columns;
    draw_panel(canvas, layout.panels[i], scale, layout.cells.left + static_cast<double>(column) * layout.step_x,
               layout.cells.top + static_cast<double>(row) * layout.step_y);
  }
  draw_color_bar(canvas, layout.bar, scale);

  const double center_x = layout.cells.left + layout.cells.width / 2;
  const double center_y = layout.cells.top + layout.cells.height / 2;
  TextStyle upwards = kAxisLabel;
  upwards.upwards = true;
  canvas.text(center_x, layout.x_label_y, grid.x_label, kAxisLabel);
  canvas.text(kPageEdge + 4, center_y, grid.y_label, upwards);
  canvas.text(layout.bar_label_x, layout.bar.top + layout.bar.height / 2, grid.value_label, upwards);
  canvas.write_png();
}

}  // namespace linnet::examples
