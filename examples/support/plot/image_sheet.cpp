#include "support/plot/image_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "support/plot/canvas.h"

namespace linnet::examples {
namespace {

constexpr double kCell = 2;  // points: an image's pixel is 4 × 4 pixels of the sheet
constexpr double kImageGap = 4;
constexpr Color kNotANumber = {0.5, 0.5, 0.5};

void check_sheet(const ImageSheet& sheet, const std::filesystem::path& path) {
  if (!sheet.images.defined() || sheet.images.rank() != 3 || sheet.images.numel() == 0) {
    throw std::runtime_error(
        fmt::format("{}: images must be [count, height, width], at least one of at least one pixel, "
                    "not {}; reshape them",
                    path.string(), sheet.images.defined() ? to_string(sheet.images.shape()) : "undefined"));
  }
  if (!is_floating(sheet.images.dtype())) {
    throw std::runtime_error(
        fmt::format("{}: images must be floating, from 0 to 1, not {}; convert bytes with "
                    "images.to(DType::float32) / 255",
                    path.string(), name_of(sheet.images.dtype())));
  }
  if (sheet.columns < 1) {
    throw std::runtime_error(fmt::format("{}: a row of {} images cannot be drawn; give columns of at least 1",
                                         path.string(), sheet.columns));
  }
}

}  // namespace

void write_png(const ImageSheet& sheet, const std::filesystem::path& path) {
  check_sheet(sheet, path);
  const int64_t count = sheet.images.size(0), height = sheet.images.size(1), width = sheet.images.size(2);
  const int64_t columns = std::min(sheet.columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  const double image_width = kCell * static_cast<double>(width), image_height = kCell * static_cast<double>(height);
  const double step_x = image_width + kImageGap, step_y = image_height + kImageGap;
  const double top = Canvas::heading_bottom(sheet.title, sheet.subtitle);

  const Canvas canvas(path, 2 * kPageEdge + static_cast<double>(columns) * step_x - kImageGap,
                      top + static_cast<double>(rows) * step_y - kImageGap + kPageEdge);
  canvas.heading(sheet.title, sheet.subtitle);
  const std::vector<double> values = sheet.images.to_vector<double>();
  for (int64_t i = 0; i < count; ++i) {
    canvas.cells(kPageEdge + static_cast<double>(i % columns) * step_x,
                 top + static_cast<double>(i / columns) * step_y, image_width, image_height, height, width,
                 [&](int64_t row, int64_t col) {
                   const double value = values[static_cast<size_t>((i * height + row) * width + col)];
                   if (std::isnan(value)) return kNotANumber;
                   const double grey = std::clamp(value, 0.0, 1.0);
                   return Color{grey, grey, grey};
                 });
  }
  canvas.write_png();
}

}  // namespace linnet::examples
