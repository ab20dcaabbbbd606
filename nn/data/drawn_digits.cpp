#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/random/philox.h>
#include <linnet/nn/data/mnist.h>

namespace linnet::nn {
namespace {

constexpr int64_t kSide = 28;
constexpr int64_t kPixels = kSide * kSide;
constexpr int64_t kDigits = 10;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

/// An arc of an ellipse, by angles in quarter turns: 0 is right, 1 is down.
Stroke arc(Point centre, double width, double height, double from, double to) {
  Stroke stroke;
  for (int i = 0; i <= 12; ++i) {
    const double angle = (from + (to - from) * i / 12) * std::numbers::pi / 2;
    stroke.push_back({centre.x + width * std::cos(angle), centre.y + height * std::sin(angle)});
  }
  return stroke;
}

/// The strokes of each digit in a box from −1 to 1, y downwards.
const std::array<std::vector<Stroke>, 10>& glyphs() {
  static const std::array<std::vector<Stroke>, 10> all{{
      {arc({0, 0}, 0.6, 0.95, 0, 4)},
      {{{-0.3, -0.6}, {0.1, -0.95}, {0.1, 0.95}}},
      {arc({0, -0.45}, 0.55, 0.5, -2, 0.3), {{0.5, -0.2}, {-0.6, 0.95}, {0.65, 0.95}}},
      {arc({-0.05, -0.48}, 0.5, 0.47, -2, 1), arc({-0.05, 0.45}, 0.6, 0.5, -1, 2)},
      {{{0.3, 0.95}, {0.3, -0.95}, {-0.65, 0.35}, {0.7, 0.35}}},
      {{{0.55, -0.95}, {-0.45, -0.95}, {-0.5, -0.1}}, arc({-0.05, 0.38}, 0.62, 0.57, -1.6, 1.7)},
      {{{0.35, -0.95}, {-0.35, -0.1}, {-0.55, 0.4}}, arc({0, 0.42}, 0.55, 0.52, 0, 4)},
      {{{-0.6, -0.95}, {0.6, -0.95}, {-0.15, 0.95}}},
      {arc({0, -0.48}, 0.48, 0.46, 0, 4), arc({0, 0.47}, 0.58, 0.48, 0, 4)},
      {arc({0, -0.42}, 0.55, 0.52, 0, 4), {{0.55, -0.42}, {0.3, 0.95}}},
  }};
  return all;
}

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double along = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / (dx * dx + dy * dy + 1e-12), 0.0, 1.0);
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

void draw(uint8_t label, RandomKey key, uint8_t* image) {
  uint64_t draws = 0;
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(to_uniform(random_word(key, draws++)));
  };
  const double angle = uniform(-0.25, 0.25);
  const double shear = uniform(-0.3, 0.3);
  const double width = uniform(6.0, 9.0);
  const double height = uniform(7.5, 9.5);
  const double thickness = uniform(0.9, 1.6);
  const double bend = uniform(-0.14, 0.14);  // handwritten curves differ
  const double phase = uniform(0, 2 * std::numbers::pi);

  std::vector<Stroke> strokes = glyphs()[label];
  Point low{1e9, 1e9}, high{-1e9, -1e9};
  for (Stroke& stroke : strokes) {
    for (Point& p : stroke) {
      const double x = (p.x + shear * p.y + bend * std::sin(3 * p.y + phase)) * width;
      const double y = (p.y + bend * std::sin(3 * p.x + phase)) * height;
      p = {x * std::cos(angle) - y * std::sin(angle), x * std::sin(angle) + y * std::cos(angle)};
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  }
  // The digit is centred, and moved by up to two pixels if there is space in the image.
  const auto offset = [&](double first, double last) {
    const double room = (kSide - (last - first)) / 2 - thickness - 1;
    return (kSide - (first + last)) / 2 + uniform(-1, 1) * std::clamp(room, 0.0, 2.0);
  };
  const Point origin{offset(low.x, high.x), offset(low.y, high.y)};

  for (int64_t i = 0; i < kPixels; ++i) {
    const int64_t row = i / kSide;
    const int64_t column = i % kSide;
    const Point pixel{static_cast<double>(column) + 0.5 - origin.x, static_cast<double>(row) + 0.5 - origin.y};
    double nearest = 1e9;
    for (const Stroke& stroke : strokes) {
      for (size_t s = 1; s < stroke.size(); ++s) {
        nearest = std::min(nearest, distance_to_segment(pixel, stroke[s - 1], stroke[s]));
      }
    }
    const double ink = std::clamp(thickness + 0.5 - nearest, 0.0, 1.0) * uniform(0.85, 1.0);
    image[i] = static_cast<uint8_t>(255 * ink);
  }
}

}  // namespace

LabelledImages drawn_digits(int64_t count, uint64_t seed) {
  if (count < 0) throw ValueError(fmt::format("drawn_digits: the count must be at least 0, not {}", count));
  std::vector<uint8_t> pixels(static_cast<size_t>(count * kPixels));
  std::vector<uint8_t> labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<uint8_t>(i % kDigits);
    draw(labels[i], {seed, i}, pixels.data() + i * kPixels);
  }
  return {std::move(pixels), std::move(labels)};
}

}  // namespace linnet::nn
