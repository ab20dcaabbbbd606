#pragma once

#include <cairo.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace linnet::examples {

struct Color {
  double red, green, blue;  ///< sRGB, each from 0 to 1
};

inline constexpr Color kInk = {0.13, 0.13, 0.13};
inline constexpr Color kSoftInk = {0.36, 0.36, 0.36};
inline constexpr Color kGridLine = {0.90, 0.90, 0.90};
inline constexpr Color kAxisLine = {0.55, 0.55, 0.55};

enum class Align : uint8_t { left, center, right };

struct TextStyle {
  double size = 11;
  Color color = kInk;
  Align align = Align::left;
  bool bold = false;
  bool upwards = false;  ///< turned to read from the bottom to the top
};

inline constexpr double kPageEdge = 22;  ///< the empty border of a picture
inline const TextStyle kAxisLabel = {.size = 11.5, .align = Align::center};

/// A white page of `width` × `height` points to draw on with cairo, written to `path` at two pixels per point. All
/// errors are std::runtime_error with the path, the reason and what to do.
class Canvas {
 public:
  /// Throws if the page is larger than cairo can hold (32,767 pixels on a side).
  Canvas(std::filesystem::path path, double width, double height);

  cairo_t* cairo() const { return context_.get(); }

  /// Writes text aligned at x, its capitals centred on y. Bytes that are not UTF-8 appear as "�".
  void text(double x, double y, const std::string& text, const TextStyle& style) const;
  double text_width(const std::string& text, const TextStyle& style) const;
  /// The text if it fits into `width`, or else as much of its beginning as fits, with "…".
  std::string fit_text(const std::string& text, double width, const TextStyle& style) const;

  /// Draws title and subtitle (either may be empty) at the top of the page. They are made smaller to fit the page,
  /// but never cut, because the subtitle may name the data. The content may begin at `heading_bottom`.
  void heading(const std::string& title, const std::string& subtitle) const;
  static double heading_bottom(const std::string& title, const std::string& subtitle);

  void line(double x0, double y0, double x1, double y1, Color color, double width) const;
  /// The colour of a cell in a row and a column, which count from 0.
  using CellColor = std::function<Color(int64_t row, int64_t col)>;
  /// Colours the box at (left, top) by rows · cols equal cells.
  void cells(double left, double top, double width, double height, int64_t rows, int64_t cols,
             const CellColor& color_of) const;
  void set_color(Color color, double opacity = 1) const;

  /// Writes the picture to `path`; after an error the file is unchanged.
  void write_png() const;

 private:
  struct Destroy {
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
    void operator()(cairo_t* context) const { cairo_destroy(context); }
  };
  void check(cairo_status_t status) const;

  std::filesystem::path path_;
  double width_;
  std::unique_ptr<cairo_surface_t, Destroy> surface_;
  std::unique_ptr<cairo_t, Destroy> context_;
};

}  // namespace linnet::examples
