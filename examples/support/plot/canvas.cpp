#include "support/plot/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <linnet/core/files/utf8.h>

#include "support/files.h"

namespace linnet::examples {
namespace {

constexpr double kScale = 2;  // pixels per point
constexpr double kTitleHeight = 24;
constexpr double kSubtitleHeight = 20;

// The text made safe for cairo, which drops everything after the first invalid byte and draws controls as boxes.
std::string drawable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = detail::code_point_length(text);
    const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F);
    result += length == 0 ? "�" : control ? " " : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

int pixels(double points) {
  constexpr double kTooMany = 1e6;  // more than cairo accepts, but less than an int holds
  return static_cast<int>(std::min(std::ceil(points * kScale), kTooMany));
}

/// Appends the bytes that cairo encodes.
cairo_status_t add_bytes(void* png, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(png)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

void select_font(cairo_t* cr, const TextStyle& style) {
  cairo_select_font_face(cr, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(cr, style.size);
}

}  // namespace

Canvas::Canvas(std::filesystem::path path, double width, double height)
    : path_(std::move(path)),
      width_(width),
      surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, pixels(width), pixels(height))),
      context_(cairo_create(surface_.get())) {
  check(cairo_status(cairo()));
  cairo_t* cr = cairo();
  cairo_scale(cr, kScale, kScale);
  set_color({1, 1, 1});
  cairo_paint(cr);
  cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
  // No hinting: letters stay where the layout puts them and are not moved to whole pixels.
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_set_font_options(cr, options);
  cairo_font_options_destroy(options);
}

void Canvas::text(double x, double y, const std::string& text, const TextStyle& style) const {
  constexpr double kHalfCapital = 0.365;  // half the height of a capital, in font sizes
  const double width = text_width(text, style);
  const double shift = style.align == Align::left ? 0 : style.align == Align::center ? width / 2 : width;
  cairo_t* cr = cairo();
  cairo_save(cr);
  cairo_translate(cr, x, y);
  if (style.upwards) cairo_rotate(cr, -std::numbers::pi / 2);
  cairo_move_to(cr, -shift, kHalfCapital * style.size);
  set_color(style.color);
  cairo_show_text(cr, drawable(text).c_str());
  cairo_restore(cr);
  cairo_new_path(cr);
}

double Canvas::text_width(const std::string& text, const TextStyle& style) const {
  cairo_text_extents_t extents;
  select_font(cairo(), style);
  cairo_text_extents(cairo(), drawable(text).c_str(), &extents);
  return extents.x_advance;
}

std::string Canvas::fit_text(const std::string& text, double width, const TextStyle& style) const {
  if (text_width(text, style) <= width) return text;
  std::string shorter = drawable(text);
  while (!shorter.empty() && text_width(shorter + "…", style) > width) {
    while ((static_cast<unsigned char>(shorter.back()) & 0xC0) == 0x80) shorter.pop_back();
    shorter.pop_back();
  }
  return shorter + "…";
}

void Canvas::heading(const std::string& title, const std::string& subtitle) const {
  const auto draw = [&](double y, const std::string& text, TextStyle style) {
    style.size *= std::min(1.0, (width_ - 2 * kPageEdge) / std::max(1.0, text_width(text, style)));
    this->text(kPageEdge, y, text, style);
  };
  draw(kPageEdge + kTitleHeight / 3, title, {.size = 16, .bold = true});
  draw(heading_bottom(title, "") + kSubtitleHeight / 3, subtitle, {.size = 11, .color = kSoftInk});
}

double Canvas::heading_bottom(const std::string& title, const std::string& subtitle) {
  return kPageEdge + (title.empty() ? 0 : kTitleHeight) + (subtitle.empty() ? 0 : kSubtitleHeight);
}

void Canvas::line(double x0, double y0, double x1, double y1, Color color, double width) const {
  set_color(color);
  cairo_set_line_width(cairo(), width);
  cairo_move_to(cairo(), x0, y0);
  cairo_line_to(cairo(), x1, y1);
  cairo_stroke(cairo());
}

void Canvas::cells(double left, double top, double width, double height, int64_t rows, int64_t cols,
                   const CellColor& color_of) const {
  cairo_surface_t* image =
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(cols), static_cast<int>(rows));
  unsigned char* data = cairo_image_surface_get_data(image);
  const auto byte = [](double part) { return static_cast<uint32_t>(std::lround(255 * part)); };
  for (int64_t r = 0; r < rows && data != nullptr; ++r) {
    auto* row = reinterpret_cast<uint32_t*>(data + r * cairo_image_surface_get_stride(image));
    for (int64_t c = 0; c < cols; ++c) {
      const Color color = color_of(r, c);
      row[c] = byte(color.red) << 16 | byte(color.green) << 8 | byte(color.blue);
    }
  }
  cairo_surface_mark_dirty(image);

  cairo_t* cr = cairo();
  cairo_save(cr);
  cairo_rectangle(cr, left, top, width, height);
  cairo_clip(cr);
  cairo_translate(cr, left, top);
  cairo_scale(cr, width / static_cast<double>(cols), height / static_cast<double>(rows));
  cairo_set_source_surface(cr, image, 0, 0);
  // Cells smaller than a pixel are averaged; larger ones keep sharp edges.
  const bool small = width < static_cast<double>(cols) || height < static_cast<double>(rows);
  cairo_pattern_set_filter(cairo_get_source(cr), small ? CAIRO_FILTER_GOOD : CAIRO_FILTER_NEAREST);
  cairo_pattern_set_extend(cairo_get_source(cr), CAIRO_EXTEND_PAD);
  cairo_paint(cr);
  cairo_restore(cr);
  cairo_surface_destroy(image);
}

void Canvas::set_color(Color color, double opacity) const {
  cairo_set_source_rgba(cairo(), color.red, color.green, color.blue, opacity);
}

void Canvas::check(cairo_status_t status) const {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw std::runtime_error(fmt::format("{}: the picture cannot be drawn: {}; if it has very many parts, draw fewer",
                                       path_.string(), cairo_status_to_string(status)));
}

void Canvas::write_png() const {
  check(cairo_status(cairo()));
  std::string png;
  check(cairo_surface_write_to_png_stream(surface_.get(), add_bytes, &png));
  replace_file(path_, png);
}

}  // namespace linnet::examples
