#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

/// The parts of Pathfinder's images: paddles, which are short lines, and markers, which are discs. Both are drawn at
/// double resolution and then scaled down.

namespace linnet::examples {

constexpr int kPathfinderSide = 32;  // pixels of an image in either direction

/// A pixel, or the offset from one pixel to another.
struct Pixel {
  int row, column;
  bool operator==(const Pixel&) const = default;
};

/// A unit vector.
struct Direction {
  double row, column;
  Direction reversed() const { return {-row, -column}; }
};

Direction direction_of_angle(double angle);
inline Direction direction_of_degrees(int degrees) { return direction_of_angle(degrees * std::numbers::pi / 180); }
/// Sine and cosine of the angle, as in the original. The sine of π and the cosine of π/2 are a little above 0, and
/// translate() rounds them up to a pixel in the image's upper rows and left columns, so that snakes have less space.
inline Direction direction_of(Pixel way) { return direction_of_angle(std::atan2(way.row, way.column)); }

/// The pixel at `distance` from `from`, both coordinates rounded up.
Pixel translate(Pixel from, Direction direction, double distance);

/// A square image of `from` × `from` bytes made smaller, to `to` × `to`, by Lanczos's filter with three lobes. Rows
/// are filtered first, and their results are rounded to bytes.
std::vector<uint8_t> lanczos_resize(std::span<const uint8_t> image, int from, int to);

/// A line from the centre of a square of 9 × 9 pixels, and what it covers.
struct Paddle {
  static constexpr int kSide = 9;
  static constexpr int kCentre = 4;
  std::array<uint8_t, kSide * kSide> line;  ///< the picture
  std::array<uint8_t, kSide * kSide> mask;  ///< 255 is covered, 0 is free
};

const Paddle& paddle_along(Direction direction);

/// A paddle with its centre at a pixel of the image.
struct PlacedPaddle {
  Pixel centre;
  const Paddle* paddle;
};

/// Calls `visit(pixel, cell)` for every cell of the paddle that lies inside the image, with the indices of both.
template <class Visit>
void visit_cells(Pixel centre, const Visit& visit) {
  const Pixel corner{centre.row - Paddle::kCentre, centre.column - Paddle::kCentre};
  const int last_row = std::min(corner.row + Paddle::kSide, kPathfinderSide);
  const int last_column = std::min(corner.column + Paddle::kSide, kPathfinderSide);
  for (int row = std::max(corner.row, 0); row < last_row; ++row) {
    for (int column = std::max(corner.column, 0); column < last_column; ++column) {
      visit(row * kPathfinderSide + column, (row - corner.row) * Paddle::kSide + column - corner.column);
    }
  }
}

/// An image of the size of Pathfinder's with a disc of radius 1.5.
std::vector<uint8_t> marker_image(Pixel centre);

}  // namespace linnet::examples
