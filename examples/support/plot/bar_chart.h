#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace linnet::examples {

struct Bar {
  std::string label;
  double value = 0;
  double deviation = 0;  ///< drawn as a whisker on either side; 0 for none
};

struct BarChart {
  std::string title = {};
  std::string subtitle = {};  ///< names the data set and what else a reader must know
  std::string y_label = {};
  std::vector<Bar> bars = {};
};

/// Draws the bars side by side as a PNG of about 1600 × 960 pixels, each with its value above it. The axis begins
/// near the smallest value, so that small differences show; the picture says so unless it begins at 0. Throws
/// std::runtime_error when there is no bar or a number is not finite, or when the file cannot be written (`path` is
/// then unchanged).
void write_png(const BarChart& chart, const std::filesystem::path& path);

}  // namespace linnet::examples
