#include "support/lra/pathfinder_scene.h"

#include <bit>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include <linnet/core/error.h>

#include "support/draws.h"

namespace linnet::examples {
namespace {

constexpr int kSide = kPathfinderSide;
constexpr int kPaddleLength = 2;
constexpr int kMargin = 1;  // pixels kept free around a paddle
constexpr int kSeedDistance = 7;
constexpr int kTries = 3;
constexpr int kDistractorTries = 5;

/// One bit for each pixel of an image.
using RowBits = std::array<uint32_t, kSide>;

bool inside(Pixel pixel) { return pixel.row >= 0 && pixel.row < kSide && pixel.column >= 0 && pixel.column < kSide; }

/// The pixels of an image that are covered: 255 is covered, 0 is free.
class Mask {
 public:
  /// The image's border is covered.
  Mask() {
    for (int i = 0; i < kSide; ++i) {
      for (const Pixel pixel : {Pixel{0, i}, Pixel{kSide - 1, i}, Pixel{i, 0}, Pixel{i, kSide - 1}}) {
        covered_[pixel.row * kSide + pixel.column] = 255;
      }
    }
  }

  void cover(const PlacedPaddle& placed) {
    visit_cells(placed.centre,
                [&](int pixel, int cell) { covered_[pixel] = std::max(covered_[pixel], placed.paddle->mask[cell]); });
  }

  /// Whether no pixel would be covered by 1.8 or more in all.
  bool has_room(const PlacedPaddle& placed) const {
    int most = 0;
    visit_cells(placed.centre,
                [&](int pixel, int cell) { most = std::max(most, covered_[pixel] + placed.paddle->mask[cell]); });
    return most < 459;  // 1.8 · 255
  }

  /// How far a pixel and its four neighbours are free. The pixel may not lie on the image's border.
  int free_around(Pixel pixel) const {
    const uint8_t* at = covered_.data() + pixel.row * kSide + pixel.column;
    return 255 - std::max({at[0], at[-kSide], at[kSide], at[-1], at[1]});
  }

  /// The pixels of each row that are covered by more than 0.3.
  RowBits covered_rows() const {
    RowBits rows{};
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        rows[row] |= static_cast<uint32_t>(covered_[row * kSide + column] > 76) << column;  // 0.3 · 255
      }
    }
    return rows;
  }

 private:
  std::array<uint8_t, kSide * kSide> covered_{};
};

/// A snake that is being made. `pivot` lies before the last paddle, whose direction is `direction`.
struct GrowingSnake {
  Snake paddles;
  Pixel pivot;
  Direction direction;
};

/// A snake of one paddle from `tail`, or nothing if it would leave the image.
std::optional<GrowingSnake> begin_snake(Pixel tail, Direction direction) {
  const Pixel head = translate(tail, direction, kPaddleLength);
  const Pixel pivot = translate(head, direction.reversed(), kPaddleLength + kMargin);
  if (!inside(head) || !inside(pivot)) return std::nullopt;
  return GrowingSnake{{{tail, &paddle_along(direction)}}, pivot, direction};
}

/// The offset from a tail to each pixel that must be free for a first paddle. As in the original, the paddle's square
/// is cut to 7 × 7 cells, and all of it is one pixel off, down and to the right.
std::vector<Pixel> needed_pixels(const Paddle& paddle) {
  constexpr int kCentre = kPaddleLength + kMargin;
  constexpr int kCells = 2 * kCentre + 1;
  std::vector<Pixel> ways;
  for (int row = 0; row < kCells; ++row) {
    for (int column = 0; column < kCells; ++column) {
      if (paddle.mask[row * Paddle::kSide + column] == 255) ways.push_back({row - kCentre, column - kCentre});
    }
  }
  return ways;
}

/// Whether some needed pixel lies inside the image wherever the tail is. If none does, OpenCV's dilation gives a
/// number below 0, and the original then treats no pixel as free. So its first paddles point up and to the left, and
/// few distractors fit.
bool always_reaches_image(const std::vector<Pixel>& ways) {
  for (const Pixel corner : {Pixel{-1, -1}, Pixel{-1, 1}, Pixel{1, -1}, Pixel{1, 1}}) {
    const bool reaches = std::ranges::any_of(
        ways, [&](Pixel way) { return way.row * corner.row <= 0 && way.column * corner.column <= 0; });
    if (!reaches) return false;
  }
  return true;
}

/// The tails from which a needed pixel is covered, as bits of each row. Pixels within `border` of the image's border
/// are covered, and those beyond it are not.
RowBits tails_without_room(RowBits covered, int border, const std::vector<Pixel>& ways) {
  const uint32_t inner = (~uint32_t{0} >> (2 * border)) << border;
  for (int row = 0; row < kSide; ++row) {
    const bool is_inner = row >= border && row < kSide - border;
    covered[row] |= is_inner ? ~inner : ~uint32_t{0};
  }
  RowBits blocked{};
  for (const Pixel way : ways) {
    for (int row = std::max(0, -way.row); row < std::min(kSide, kSide - way.row); ++row) {
      const uint32_t needed = covered[row + way.row];
      blocked[row] |= way.column >= 0 ? needed >> way.column : needed << -way.column;
    }
  }
  return blocked;
}

/// One of the pixels whose bits are not set, each as likely as another, or nothing when all are set.
std::optional<Pixel> draw_pixel(const RowBits& blocked, Draws& draws) {
  int count = 0;
  for (const uint32_t row : blocked) count += std::popcount(~row);
  if (count == 0) return std::nullopt;
  auto skipped = static_cast<int>(draws.below(count));
  int row = 0;
  for (; skipped >= std::popcount(~blocked[row]); ++row) skipped -= std::popcount(~blocked[row]);
  uint32_t bits = ~blocked[row];
  for (; skipped > 0; --skipped) bits &= bits - 1;
  return Pixel{row, std::countr_zero(bits)};
}

/// A snake that begins at a free pixel, at least `border` from the image's border.
std::optional<GrowingSnake> draw_first_paddle(const Mask& mask, int border, Draws& draws) {
  const RowBits covered = mask.covered_rows();
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const Direction direction = direction_of_degrees(static_cast<int>(draws.below(360)) - 180);
    const std::vector<Pixel> ways = needed_pixels(paddle_along(direction));
    if (!always_reaches_image(ways)) return std::nullopt;
    const std::optional<Pixel> tail = draw_pixel(tails_without_room(covered, border, ways), draws);
    if (!tail) return std::nullopt;
    if (auto snake = begin_snake(*tail, direction)) return snake;
  }
  return std::nullopt;
}

/// A snake that begins at `kSeedDistance` from the tail of another.
std::optional<GrowingSnake> draw_second_paddle(Pixel tail, Draws& draws) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const Direction direction = direction_of_degrees(static_cast<int>(draws.below(360)) - 180);
    const Direction way = direction_of_degrees(static_cast<int>(draws.below(360)));
    const Pixel second{static_cast<int>(std::nearbyint(tail.row + kSeedDistance * way.row)),
                       static_cast<int>(std::nearbyint(tail.column + kSeedDistance * way.column))};
    if (auto snake = begin_snake(second, direction)) return snake;
  }
  return std::nullopt;
}

/// A pixel where a snake may continue, relative to the pivot.
struct Candidate {
  Pixel way;
  Direction direction;
};

/// The pixels on a circle around the pivot, about one for each pixel of its circumference.
const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = [] {
    constexpr double kRadius = kPaddleLength + kMargin;
    std::vector<Candidate> found;
    for (double angle = 0; angle < 2 * std::numbers::pi; angle += 1 / kRadius) {
      const Pixel way{static_cast<int>(std::floor(kRadius * std::sin(angle))),
                      static_cast<int>(std::floor(kRadius * std::cos(angle)))};
      const bool known = std::ranges::any_of(found, [&](const Candidate& other) { return other.way == way; });
      if (!known) found.push_back({way, direction_of(way)});
    }
    return found;
  }();
  return all;
}

/// Adds a paddle at a free pixel. The less the snake bends at a pixel, the likelier it is. False if no pixel is free.
bool extend(GrowingSnake& snake, Mask& mask, Draws& draws) {
  const Pixel pivot = translate(snake.pivot, snake.direction, kPaddleLength + 2 * kMargin);
  const auto at = [&](const Candidate& candidate) {
    return Pixel{pivot.row + candidate.way.row, pivot.column + candidate.way.column};
  };
  const std::vector<Candidate>& all = candidates();
  std::array<double, 32> sums{};  // of the weights up to each candidate
  double total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Pixel pixel = at(all[i]);
    const bool on_border = pixel.row < 1 || pixel.row > kSide - 2 || pixel.column < 1 || pixel.column > kSide - 2;
    const double cosine =
        all[i].direction.row * snake.direction.row + all[i].direction.column * snake.direction.column;
    if (!on_border && cosine > 0) total += mask.free_around(pixel) * cosine * cosine;
    sums[i] = total;
  }
  if (total < 1e-4 * 255) return false;

  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double drawn = draws.uniform() * total;
    const auto chosen = std::upper_bound(sums.begin(), sums.begin() + std::ssize(all), drawn) - sums.begin();
    const Candidate& candidate = all[chosen];
    const PlacedPaddle placed{at(candidate), &paddle_along(candidate.direction.reversed())};
    if (!mask.has_room(placed)) continue;
    mask.cover(snake.paddles.back());
    snake.paddles.push_back(placed);
    snake.pivot = pivot;
    snake.direction = candidate.direction;
    return true;
  }
  return false;
}

/// Both snakes, grown in turn. If they fit, `mask` is what they cover.
std::optional<std::array<Snake, 2>> draw_snakes(int64_t length, Mask& mask, Draws& draws) {
  auto first = draw_first_paddle(mask, 2 * kSeedDistance, draws);
  if (!first) return std::nullopt;
  auto second = draw_second_paddle(first->paddles.front().centre, draws);
  if (!second) return std::nullopt;
  for (int64_t i = 1; i < length; ++i) {
    if (!extend(*first, mask, draws) || !extend(*second, mask, draws)) return std::nullopt;
  }
  mask.cover(second->paddles.back());
  return std::array{std::move(first->paddles), std::move(second->paddles)};
}

/// A snake on pixels that the mask leaves free, which it then covers. Nothing, with the mask unchanged, if none fits.
std::optional<Snake> draw_distractor(int64_t length, Mask& mask, Draws& draws) {
  int free = 0;
  for (const uint32_t row : mask.covered_rows()) free += std::popcount(~row);
  if (free < 0.01 * kSide * kSide) return std::nullopt;
  Mask with_snake = mask;
  auto snake = draw_first_paddle(mask, 1, draws);
  if (!snake) return std::nullopt;
  for (int64_t i = 1; i < length; ++i) {
    if (!extend(*snake, with_snake, draws)) return std::nullopt;
  }
  with_snake.cover(snake->paddles.back());
  mask = with_snake;
  return std::move(snake->paddles);
}

void check_options(const PathfinderOptions& options) {
  if (options.contour_length < 2 || options.contour_length > 20) {
    throw ValueError(
        fmt::format("pathfinder_image: contour_length must be from 2 to 20, not {}; two longer snakes "
                    "hardly ever find room in 32 × 32 pixels",
                    options.contour_length));
  }
  if (options.distractors < 0 || options.distractors > 100) {
    throw ValueError(fmt::format("pathfinder_image: distractors must be from 0 to 100, not {}", options.distractors));
  }
}

}  // namespace

PathfinderScene pathfinder_scene(const PathfinderOptions& options, uint64_t seed, uint64_t i) {
  check_options(options);
  Draws draws({seed, i});
  PathfinderScene scene{};
  scene.tail_marked = static_cast<int>(draws.below(2));
  scene.head_marked = static_cast<int>(draws.below(2));
  Mask mask;
  for (std::optional<std::array<Snake, 2>> snakes; !snakes; ++scene.attempts) {
    mask = Mask();
    snakes = draw_snakes(options.contour_length, mask, draws);
    if (snakes) scene.snakes = std::move(*snakes);
  }
  const int64_t length = std::max<int64_t>(options.contour_length / 3, 1);
  for (int64_t distractor = 0; distractor < options.distractors; ++distractor) {
    for (int attempt = 0; attempt < kDistractorTries; ++attempt) {
      if (auto snake = draw_distractor(length, mask, draws)) {
        scene.distractors.push_back(std::move(*snake));
        break;
      }
    }
  }
  return scene;
}

}  // namespace linnet::examples
