#include "support/plot/bar_chart.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "support/plot/axis.h"
#include "support/plot/canvas.h"

namespace linnet::examples {
namespace {

constexpr double kWidth = 800, kHeight = 480;  // points
constexpr double kFill = 0.6;                  // of the width that each bar has
constexpr Color kBar = {0.00, 0.45, 0.70};
constexpr int kTicks = 6;

const TextStyle kTickLabel = {.size = 10.5, .color = kSoftInk, .align = Align::right};
const TextStyle kValue = {.size = 11, .align = Align::center, .bold = true};

/// The axis, from a little below the lowest whisker to a little above the highest. It is below 0 only if a whisker
/// is.
Axis fit(const std::vector<Bar>& bars) {
  std::vector<double> ends;
  for (const Bar& bar : bars) {
    ends.push_back(bar.value - bar.deviation);
    ends.push_back(bar.value + bar.deviation);
  }
  Axis axis = fit_axis(ends, false, 0.25);
  if (*std::ranges::min_element(ends) >= 0) axis.low = std::max(axis.low, 0.0);
  return axis;
}

/// The value with four significant digits, and the deviation with as many decimals.
std::string value_of(const Bar& bar) {
  const double size = std::max(std::abs(bar.value), 1e-6);
  const int decimals = std::clamp(3 - static_cast<int>(std::floor(std::log10(size))), 0, 6);
  return bar.deviation > 0 ? fmt::format("{:.{}f} ± {:.{}f}", bar.value, decimals, bar.deviation, decimals)
                           : fmt::format("{:.{}f}", bar.value, decimals);
}

}  // namespace

void write_png(const BarChart& chart, const std::filesystem::path& path) {
  if (chart.bars.empty()) throw std::runtime_error(path.string() + ": there is no bar to draw");
  for (const Bar& bar : chart.bars) {
    if (std::isfinite(bar.value) && std::isfinite(bar.deviation) && bar.deviation >= 0) continue;
    throw std::runtime_error(
        fmt::format("{}: the bar '{}' is {} ± {}", path.string(), bar.label, bar.value, bar.deviation));
  }
  const Canvas canvas(path, kWidth, kHeight);
  const Axis axis = fit(chart.bars);
  const std::vector<Tick> ticks = axis.ticks(kTicks);
  double tick_width = 0;
  for (const Tick& tick : ticks) tick_width = std::max(tick_width, canvas.text_width(tick.label, kTickLabel));
  const double left = kPageEdge + 22 + tick_width + 8, right = kWidth - kPageEdge;
  const double top = Canvas::heading_bottom(chart.title, chart.subtitle) + 6, bottom = kHeight - kPageEdge - 36;
  const auto height_of = [&](double value) { return bottom - axis.fraction(value) * (bottom - top); };

  canvas.heading(chart.title, chart.subtitle);
  for (const Tick& tick : ticks) {
    const double y = height_of(tick.value);
    canvas.line(left, y, right, y, kGridLine, 0.9);
    canvas.text(left - 8, y, tick.label, kTickLabel);
  }
  const double share = (right - left) / static_cast<double>(chart.bars.size());
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const Bar& bar = chart.bars[i];
    const double centre = left + (static_cast<double>(i) + 0.5) * share, y = height_of(bar.value);
    cairo_rectangle(canvas.cairo(), centre - kFill * share / 2, y, kFill * share, bottom - y);
    canvas.set_color(kBar);
    cairo_fill(canvas.cairo());
    const double high = height_of(bar.value + bar.deviation), low = height_of(bar.value - bar.deviation);
    if (bar.deviation > 0) {
      canvas.line(centre, high, centre, low, kInk, 1.5);
      for (const double end : {high, low}) canvas.line(centre - 6, end, centre + 6, end, kInk, 1.5);
    }
    canvas.text(centre, high - 12, value_of(bar), kValue);
    canvas.text(centre, bottom + 16, canvas.fit_text(bar.label, share - 6, kAxisLabel), kAxisLabel);
  }
  canvas.line(left, bottom, right, bottom, kAxisLine, 1);
  TextStyle upwards = kAxisLabel;
  upwards.upwards = true;
  canvas.text(kPageEdge + 4, (top + bottom) / 2, chart.y_label + (axis.low == 0 ? "" : " (axis not from 0)"),
              upwards);
  canvas.write_png();
}

}  // namespace linnet::examples
