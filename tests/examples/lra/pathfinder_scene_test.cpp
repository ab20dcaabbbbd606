/// How snakes grow: the test builds every scene again, step by step, by the rules of the original.

#include "support/lra/pathfinder_scene.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace linnet::examples;

namespace {

Pixel way_between(Pixel from, Pixel to) { return {to.row - from.row, to.column - from.column}; }

/// Whether a pixel is one of those around a pivot: at distance 3 in a direction, with a direction for each third of a
/// radian, rounded down.
bool is_candidate(Pixel way) {
  for (int i = 0; i < 19; ++i) {
    const double angle = i / 3.0;
    if (way ==
        Pixel{static_cast<int>(std::floor(3 * std::sin(angle))), static_cast<int>(std::floor(3 * std::cos(angle)))}) {
      return true;
    }
  }
  return false;
}

/// Whether each of the snake's paddles follows from the pivot before, if the first points along `degrees`.
bool follows(const Snake& snake, int degrees) {
  Direction direction = direction_of_degrees(degrees);
  if (snake[0].paddle != &paddle_along(direction)) return false;
  Pixel pivot = translate(translate(snake[0].centre, direction, 2), direction.reversed(), 3);
  for (size_t i = 1; i < snake.size(); ++i) {
    pivot = translate(pivot, direction, 4);
    const Pixel way = way_between(pivot, snake[i].centre);
    const Direction next = direction_of(way);
    const bool bends_less_than_90_degrees = next.row * direction.row + next.column * direction.column > 0;
    if (!is_candidate(way) || !bends_less_than_90_degrees) return false;
    if (snake[i].paddle != &paddle_along(next.reversed())) return false;
    direction = next;
  }
  return true;
}

bool follows(const Snake& snake) {
  for (int degrees = 0; degrees < 360; ++degrees) {
    if (follows(snake, degrees)) return true;
  }
  return false;
}

/// The pixels that are covered when a paddle is added.
class Covered {
 public:
  Covered() : covered_(kPathfinderSide * kPathfinderSide) {
    for (int i = 0; i < kPathfinderSide; ++i) {
      at({0, i}) = at({i, 0}) = at({kPathfinderSide - 1, i}) = at({i, kPathfinderSide - 1}) = 255;
    }
  }

  void cover(const PlacedPaddle& placed) {
    for_each_cell(placed, 4, [&](int& covered, int mask) { covered = std::max(covered, mask); });
  }

  bool has_room(const PlacedPaddle& placed) {
    int most = 0;
    for_each_cell(placed, 4, [&](int covered, int mask) { most = std::max(most, covered + mask); });
    return most < 1.8 * 255;
  }

  /// Checks that the pixels of a first paddle are free.
  void check_begin(const PlacedPaddle& placed) {
    int most = 0;
    for_each_cell(placed, 3, [&](int covered, int mask) {
      if (mask == 255) most = std::max(most, covered);
    });
    CHECK(most <= 0.3 * 255);
  }

  /// Checks that the paddle's pixels are free and that it has a weight above 0. Its predecessor then covers pixels
  /// too.
  void check_extend(const Snake& snake, size_t i) {
    CHECK(has_room(snake[i]));
    for (const Pixel way : {Pixel{0, 0}, Pixel{-1, 0}, Pixel{1, 0}, Pixel{0, -1}, Pixel{0, 1}}) {
      CHECK(at({snake[i].centre.row + way.row, snake[i].centre.column + way.column}) < 255);
    }
    cover(snake[i - 1]);
  }

 private:
  int& at(Pixel pixel) { return covered_[pixel.row * kPathfinderSide + pixel.column]; }

  /// Calls `visit` with pixels of the image and the first 2 · centre + 1 cells of the mask in both dims. The mask's
  /// cell (centre, centre) is at the paddle's pixel.
  template <class Visit>
  void for_each_cell(const PlacedPaddle& placed, int centre, const Visit& visit) {
    for (int row = 0; row <= 2 * centre; ++row) {
      for (int column = 0; column <= 2 * centre; ++column) {
        const Pixel pixel{placed.centre.row + row - centre, placed.centre.column + column - centre};
        const bool inside = std::min(pixel.row, pixel.column) >= 0 && std::max(pixel.row, pixel.column) < 32;
        if (inside) visit(at(pixel), placed.paddle->mask[row * Paddle::kSide + column]);
      }
    }
  }

  std::vector<int> covered_;
};

}  // namespace

TEST_CASE("pathfinder: near the upper and left border, rounding up moves what goes along it") {
  const auto left = direction_of({0, -3}), up = direction_of({-3, 0}), down = direction_of({2, 0});
  CHECK(translate({2, 10}, left, 4) == Pixel{3, 6});
  CHECK(translate({7, 10}, left, 4) == Pixel{8, 6});
  CHECK(translate({8, 10}, left, 4) == Pixel{8, 6});
  CHECK(translate({10, 2}, up, 4) == Pixel{6, 3});
  CHECK(translate({10, 2}, down, 4) == Pixel{14, 3});
  CHECK(translate({10, 4}, down, 4) == Pixel{14, 4});
  CHECK(translate({2, 10}, direction_of({0, 3}), 4) == Pixel{2, 14});
}

TEST_CASE("pathfinder: a snake goes on from pivot to pivot") {
  for (uint64_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    const PathfinderScene scene = pathfinder_scene({}, 6, i);
    for (const Snake& snake : scene.snakes) CHECK(follows(snake));
    for (const Snake& snake : scene.distractors) CHECK(follows(snake));
    const Pixel way = way_between(scene.snakes[0].front().centre, scene.snakes[1].front().centre);
    CHECK(std::abs(std::hypot(way.row, way.column) - 7) < 0.71);  // 7, with both coordinates rounded
  }
}

TEST_CASE("pathfinder: paddles stand where there is room, and distractors also on the first snake's head") {
  int on_head = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    const PathfinderScene scene = pathfinder_scene({}, 7, i);
    Covered covered;
    covered.check_begin(scene.snakes[0].front());
    for (size_t k = 1; k < scene.snakes[0].size(); ++k) {
      for (const Snake& snake : scene.snakes) covered.check_extend(snake, k);
    }
    covered.cover(scene.snakes[1].back());
    Covered head;
    head.cover(scene.snakes[0].back());
    for (const Snake& snake : scene.distractors) {
      covered.check_begin(snake.front());
      for (size_t k = 1; k < snake.size(); ++k) {
        covered.check_extend(snake, k);
        on_head += !head.has_room(snake[k]);
      }
      covered.cover(snake.back());
    }
  }
  CHECK(on_head > 0);
}
