#pragma once

#include <array>
#include <cstdint>

namespace linnet::examples {

/// Options of pathfinder_image().
struct PathfinderOptions {
  int64_t contour_length = 14;  ///< paddles in each of the two snakes, from 2 to 20
  int64_t distractors = 5;      ///< shorter snakes to try, from 0 to 100; those that do not fit are left out
};

/// A grey image of 32 × 32 pixels with its label.
struct PathfinderImage {
  static constexpr int64_t kSide = 32;
  static constexpr int64_t kPixels = kSide * kSide;
  std::array<uint8_t, kPixels> pixels;  ///< row by row; 0 is black
  uint8_t label;                        ///< 1 when both markers lie on one snake, else 0
  bool operator==(const PathfinderImage&) const = default;
};

/// Image `i` of the Pathfinder task: two snakes, which are curves of short dashes (paddles), a marker at an end of
/// each or at both ends of one, and shorter snakes as distractors. The image depends only on the options, the seed
/// and `i`.
///
/// Source: Linsley et al. 2018, "Learning long-range spatial dependencies with horizontal gated recurrent units"; the
/// numbers are those of the Long Range Arena (Tay et al. 2021).
///
/// Throws: ValueError for options out of range.
PathfinderImage pathfinder_image(const PathfinderOptions& options, uint64_t seed, uint64_t i);

}  // namespace linnet::examples
