#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <linnet/core/tensor.h>

namespace linnet::examples {

/// Grey images side by side, from left to right and from top to bottom.
struct ImageSheet {
  std::string title = {};
  std::string subtitle = {};  ///< names the data set and what else a reader must know
  /// [count, height, width], of any floating dtype: 0 is black, 1 is white. Numbers outside of this range are drawn
  /// as the nearer of the two, and NaN is grey.
  Tensor images = {};
  int64_t columns = 10;  ///< images per row
};

/// Draws the sheet as a PNG, each pixel of an image as a square of 4 × 4. Throws std::runtime_error when there are no
/// images of this shape, or the file cannot be written (`path` is then unchanged).
void write_png(const ImageSheet& sheet, const std::filesystem::path& path);

}  // namespace linnet::examples
