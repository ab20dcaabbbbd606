#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "support/lra/paddle.h"
#include "support/lra/pathfinder.h"

namespace linnet::examples {

/// The paddles of a curve, from its tail to its head. The centre of the first is the tail, and that of the last the
/// head.
using Snake = std::vector<PlacedPaddle>;

/// What is drawn in a Pathfinder image.
struct PathfinderScene {
  std::array<Snake, 2> snakes;
  std::vector<Snake> distractors;
  int tail_marked;   ///< the snake with a marker at its tail
  int head_marked;   ///< the snake with a marker at its head
  int64_t attempts;  ///< pairs of snakes that were started until both fitted
  uint8_t label() const { return tail_marked == head_marked ? 1 : 0; }
};

/// The scene of image `i`. Throws: ValueError for options out of range.
PathfinderScene pathfinder_scene(const PathfinderOptions& options, uint64_t seed, uint64_t i);

}  // namespace linnet::examples
