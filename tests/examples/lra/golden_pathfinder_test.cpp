/// Compares the parts of Pathfinder's images with those of Pillow and OpenCV.

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "support/lra/paddle.h"
#include "support/lra/pathfinder_scene.h"
#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using namespace linnet::examples;

namespace {

std::vector<uint8_t> bytes(const Tensor& x) {
  const std::vector<int32_t> values = x.to_vector<int32_t>();
  return {values.begin(), values.end()};
}

void compare_resize(const Golden& golden, DType) {
  const Tensor input = golden.get("input"), output = golden.get("output");
  CHECK(lanczos_resize(bytes(input), static_cast<int>(input.size(0)), static_cast<int>(output.size(0))) ==
        bytes(output));
}

void compare_paddles(const Golden& golden, DType) {
  const std::vector<int64_t> degrees = golden.get("degrees").to_vector<int64_t>();
  const std::vector<int64_t> same_as = golden.get("same_as").to_vector<int64_t>();
  const std::vector<uint8_t> lines = bytes(golden.get("lines")), masks = bytes(golden.get("masks"));
  for (size_t i = 0; i < degrees.size(); ++i) {
    CAPTURE(degrees[i]);
    const Paddle& paddle = paddle_along(direction_of_degrees(static_cast<int>(degrees[i])));
    CHECK(std::equal(paddle.line.begin(), paddle.line.end(), lines.begin() + std::ssize(paddle.line) * i));
    CHECK(std::equal(paddle.mask.begin(), paddle.mask.end(), masks.begin() + std::ssize(paddle.mask) * i));
  }
  for (int degree = 0; degree < 360; ++degree) {
    CAPTURE(degree);
    CHECK(&paddle_along(direction_of_degrees(degree)) ==
          &paddle_along(direction_of_degrees(static_cast<int>(same_as[degree]))));
  }
}

/// Checks that the first paddles of many scenes are exactly those that the original allows.
void compare_first_paddles(const Golden& golden, DType) {
  const std::vector<int64_t> pairs = golden.get("degrees_and_tails").to_vector<int64_t>();
  using First = std::pair<const Paddle*, int64_t>;
  std::set<First> allowed, found;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    allowed.insert({&paddle_along(direction_of_degrees(static_cast<int>(pairs[i]))), pairs[i + 1]});
  }
  for (uint64_t i = 0; i < 1000; ++i) {
    const PathfinderScene scene = pathfinder_scene({.contour_length = 2, .distractors = 0}, 1, i);
    const PlacedPaddle first = scene.snakes[0].front();
    found.insert({first.paddle, first.centre.row * kPathfinderSide + first.centre.column});
  }
  CHECK(found == allowed);
}

void compare_markers(const Golden& golden, DType) {
  const std::vector<int64_t> centres = golden.get("centres").to_vector<int64_t>();
  for (int64_t i = 0; i < std::ssize(centres) / 2; ++i) {
    const Pixel centre{static_cast<int>(centres[2 * i]), static_cast<int>(centres[2 * i + 1])};
    CAPTURE(centre.row);
    CAPTURE(centre.column);
    CHECK(marker_image(centre) == bytes(golden.get("output").select(0, i)));
  }
}

}  // namespace

TEST_CASE("pathfinder: paddles and markers are drawn as Pillow and OpenCV draw them") {
  compare_goldens("pathfinder", DType::float64,
                  {{"lanczos_resize", compare_resize},
                   {"paddle", compare_paddles},
                   {"first_paddle", compare_first_paddles},
                   {"marker", compare_markers}});
}
