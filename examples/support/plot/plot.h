#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace linnet::examples {

/// One line of a chart. Points that are not finite (or not positive on a logarithmic axis) leave a gap.
struct Series {
  std::string label = {};
  std::vector<double> x = {};
  std::vector<double> y = {};
  std::optional<size_t> color = {};  ///< index of colour and marker; default: the index of the series
  bool light = false;                ///< thinner and paler, for a second line of the same colour
  /// The area of each point's circle, as a share of the largest in the chart; empty for lines with small dots.
  std::vector<double> areas = {};
};

struct LineChart {
  std::string title = {};
  std::string subtitle = {};  ///< names the data set and what else a reader must know
  std::string x_label = {};
  std::string y_label = {};
  bool log_x = false;
  bool log_y = false;
  std::vector<Series> series = {};
};

/// Draws the chart as a PNG of about 1600 × 960 pixels, each line labelled beside its end. Up to twelve
/// lines have colours and markers of their own. Throws std::runtime_error when a series has different numbers of x
/// and y (or of areas, if it has any), or the file cannot be written (`path` is then unchanged).
void write_png(const LineChart& chart, const std::filesystem::path& path);

}  // namespace linnet::examples
