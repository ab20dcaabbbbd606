#include "support/lra/pathfinder.h"

#include "support/lra/pathfinder_scene.h"

namespace linnet::examples {
namespace {

static_assert(PathfinderImage::kSide == kPathfinderSide);

/// Brightness in halves of a grey level, so that the contrasts 1.5 and 2 are whole numbers.
using Brightness = std::array<int, PathfinderImage::kPixels>;
constexpr int kMarker = 2, kSnake = 3, kDistractor = 4;

void draw(const Snake& snake, int contrast, Brightness& picture) {
  for (const PlacedPaddle& placed : snake) {
    visit_cells(placed.centre, [&](int pixel, int cell) {
      picture[pixel] = std::max(picture[pixel], contrast * placed.paddle->line[cell]);
    });
  }
}

void draw_marker(Pixel centre, Brightness& picture) {
  const std::vector<uint8_t> marker = marker_image(centre);
  for (size_t i = 0; i < picture.size(); ++i) picture[i] = std::max(picture[i], kMarker * marker[i]);
}

}  // namespace

PathfinderImage pathfinder_image(const PathfinderOptions& options, uint64_t seed, uint64_t i) {
  const PathfinderScene scene = pathfinder_scene(options, seed, i);
  Brightness picture{};
  for (const Snake& snake : scene.snakes) draw(snake, kSnake, picture);
  for (const Snake& snake : scene.distractors) draw(snake, kDistractor, picture);
  draw_marker(scene.snakes[scene.tail_marked].front().centre, picture);
  draw_marker(scene.snakes[scene.head_marked].back().centre, picture);

  const auto [low, high] = std::ranges::minmax(picture);
  PathfinderImage image{{}, scene.label()};
  for (size_t pixel = 0; pixel < picture.size(); ++pixel) {
    const int range = high - low;  // never 0, because of the markers
    image.pixels[pixel] = static_cast<uint8_t>((2 * 255 * (picture[pixel] - low) + range) / (2 * range));
  }
  return image;
}

}  // namespace linnet::examples
