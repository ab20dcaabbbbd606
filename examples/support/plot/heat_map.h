#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/plot/canvas.h"

namespace linnet::examples {

/// A matrix as a picture: row 0 at the top, dark for small and bright for large values.
struct HeatMap {
  std::string title = {};
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values = {};  ///< row by row; values that are not finite, such as masked ones, are grey
  /// One label per column (a space is shown as ·, a newline as ↵); empty: the columns' numbers.
  std::vector<std::string> x_ticks = {};
  std::vector<std::string> y_ticks = {};  ///< the same for rows
};

/// Several heat maps in one picture, with one colour scale, which begins at 0 unless a value is negative.
struct HeatMapGrid {
  std::string title = {};
  std::string subtitle = {};     ///< names the data set and what else a reader must know
  std::string x_label = {};      ///< for all maps, drawn once below them
  std::string y_label = {};      ///< for all maps, drawn once to their left
  std::string value_label = {};  ///< what the colour bar measures
  int64_t columns = 0;           ///< maps per row; 0: as many as rows
  std::vector<HeatMap> maps = {};
};

/// Draws the maps with a colour bar as a PNG. Throws std::runtime_error when a map's values or ticks do not
/// match its rows and columns, or the file cannot be written (`path` is then unchanged).
void write_png(const HeatMapGrid& grid, const std::filesystem::path& path);

/// The colour for `fraction` of the way from the smallest to the largest value, from dark violet over teal to
/// yellow, in equal steps of perceived lightness.
Color heat_color(double fraction);

}  // namespace linnet::examples
