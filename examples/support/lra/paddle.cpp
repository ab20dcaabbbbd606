#include "support/lra/paddle.h"

#include <cmath>
#include <cstdlib>
#include <numbers>

namespace linnet::examples {
namespace {

constexpr int kCanvasSide = 17;  // a paddle's square at double resolution
constexpr Pixel kCanvasCentre{8, 8};
constexpr double kLineLength = 4;
constexpr Pixel kFirstEnd{4, 4};  // a line ends in the square of 9 × 9 pixels from here on
constexpr int kEnds = 9;

double sinc(double x) { return x == 0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }
double lanczos(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0.0; }

/// The weights of the pixels from `first` on in a pixel of the smaller image. Their sum is 1 at the borders too.
struct Taps {
  int first;
  std::vector<double> weights;
};

Taps taps_of(int pixel, int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double centre = (pixel + 0.5) * scale;
  const int first = std::max(static_cast<int>(std::lround(centre - 3 * scale)), 0);
  const int end = std::min(static_cast<int>(std::lround(centre + 3 * scale)), from);
  Taps taps{first, {}};
  double sum = 0;
  for (int i = first; i < end; ++i) {
    taps.weights.push_back(lanczos((i + 0.5 - centre) / scale));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

/// Makes rows of length `from` smaller. Row `i` of the image becomes column `i` of the result.
std::vector<uint8_t> resize_rows(std::span<const uint8_t> image, int from, int to) {
  const int rows = static_cast<int>(image.size()) / from;
  std::vector<uint8_t> result;
  result.reserve(static_cast<size_t>(to) * rows);
  for (int pixel = 0; pixel < to; ++pixel) {
    const Taps taps = taps_of(pixel, from, to);
    for (int row = 0; row < rows; ++row) {
      double sum = 0;
      for (size_t i = 0; i < taps.weights.size(); ++i) sum += taps.weights[i] * image[row * from + taps.first + i];
      result.push_back(static_cast<uint8_t>(std::clamp(sum + 0.5, 0.0, 255.0)));
    }
  }
  return result;
}

/// The pixels of a line, by Bresenham's algorithm: a step along the longer axis each, the other axis rounded.
std::vector<Pixel> line_pixels(Pixel from, Pixel to) {
  const Pixel way{to.row - from.row, to.column - from.column};
  const int steps = std::max(std::abs(way.row), std::abs(way.column));
  const auto share = [&](int whole, int step) {
    const int rounded = steps == 0 ? 0 : (2 * std::abs(whole) * step + steps) / (2 * steps);
    return whole < 0 ? -rounded : rounded;
  };
  std::vector<Pixel> pixels;
  for (int step = 0; step <= steps; ++step) {
    pixels.push_back({from.row + share(way.row, step), from.column + share(way.column, step)});
  }
  return pixels;
}

/// Sets the pixels of a square image that are at most `radius` from the centre to 255.
void fill_disc(std::vector<uint8_t>& image, int side, Pixel centre, int radius) {
  for (int row = std::max(centre.row - radius, 0); row <= std::min(centre.row + radius, side - 1); ++row) {
    for (int column = std::max(centre.column - radius, 0); column <= std::min(centre.column + radius, side - 1);
         ++column) {
      const Pixel way{row - centre.row, column - centre.column};
      if (way.row * way.row + way.column * way.column <= radius * radius) image[row * side + column] = 255;
    }
  }
}

/// The paddle whose line ends at `end`, at double resolution.
Paddle draw_paddle(Pixel end) {
  std::vector<uint8_t> line(kCanvasSide * kCanvasSide), mask(line.size());
  for (const Pixel pixel : line_pixels(kCanvasCentre, end)) {
    fill_disc(line, kCanvasSide, pixel, 0);
    fill_disc(mask, kCanvasSide, pixel, 2);
  }
  Paddle paddle{};
  std::ranges::copy(lanczos_resize(line, kCanvasSide, Paddle::kSide), paddle.line.begin());
  std::ranges::copy(lanczos_resize(mask, kCanvasSide, Paddle::kSide), paddle.mask.begin());
  return paddle;
}

}  // namespace

Direction direction_of_angle(double angle) { return {std::sin(angle), std::cos(angle)}; }

Pixel translate(Pixel from, Direction direction, double distance) {
  return {static_cast<int>(std::ceil(from.row + distance * direction.row)),
          static_cast<int>(std::ceil(from.column + distance * direction.column))};
}

std::vector<uint8_t> lanczos_resize(std::span<const uint8_t> image, int from, int to) {
  return resize_rows(resize_rows(image, from, to), from, to);
}

const Paddle& paddle_along(Direction direction) {
  static const std::vector<Paddle> all = [] {
    std::vector<Paddle> paddles;
    paddles.reserve(kEnds * kEnds);
    for (int end = 0; end < kEnds * kEnds; ++end) {
      paddles.push_back(draw_paddle({kFirstEnd.row + end / kEnds, kFirstEnd.column + end % kEnds}));
    }
    return paddles;
  }();
  const Pixel end = translate(kCanvasCentre, direction, kLineLength);
  return all[(end.row - kFirstEnd.row) * kEnds + end.column - kFirstEnd.column];
}

std::vector<uint8_t> marker_image(Pixel centre) {
  constexpr int kDouble = 2 * kPathfinderSide;
  std::vector<uint8_t> canvas(kDouble * kDouble);
  fill_disc(canvas, kDouble, {2 * centre.row, 2 * centre.column}, 3);
  return lanczos_resize(canvas, kDouble, kPathfinderSide);
}

}  // namespace linnet::examples
