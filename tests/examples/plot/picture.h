#pragma once

#include <cairo.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "support/plot/canvas.h"
#include "tests/support/files.h"

namespace linnet::examples::test {

using linnet::test::TemporaryFolder;

/// The pixels of a colour: their number, and the box around them.
struct Region {
  int64_t count = 0;
  int left = 0, right = -1, top = 0, bottom = -1;
};

/// A PNG file that was read back.
class Picture {
 public:
  explicit Picture(const std::filesystem::path& path)
      : surface_(cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy) {
    if (cairo_surface_status(surface_.get()) != CAIRO_STATUS_SUCCESS) {
      throw std::runtime_error("not a PNG: " + path.string());
    }
  }

  int width() const { return cairo_image_surface_get_width(surface_.get()); }
  int height() const { return cairo_image_surface_get_height(surface_.get()); }

  bool has(int x, int y, Color color) const {
    const auto* row =
        cairo_image_surface_get_data(surface_.get()) + y * cairo_image_surface_get_stride(surface_.get());
    const uint32_t pixel = reinterpret_cast<const uint32_t*>(row)[x];
    const auto near = [&](double part, unsigned shift) {
      return std::abs(255 * part - static_cast<double>(pixel >> shift & 255U)) < 1.6;
    };
    return near(color.red, 16) && near(color.green, 8) && near(color.blue, 0);
  }

  /// Where `color` occurs between the columns `first` and `last`.
  Region find(Color color, int first, int last) const {
    Region region;
    for (int y = 0; y < height(); ++y) {
      for (int x = first; x < last; ++x) {
        if (!has(x, y, color)) continue;
        if (region.count++ == 0) region = {1, x, x, y, y};
        region.left = std::min(region.left, x);
        region.right = std::max(region.right, x);
        region.bottom = y;
      }
    }
    return region;
  }
  Region find(Color color) const { return find(color, 0, width()); }

 private:
  std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface_;
};

/// The message of the std::runtime_error that `call` throws, or "" if it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace linnet::examples::test
