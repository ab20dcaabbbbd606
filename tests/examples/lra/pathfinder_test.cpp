#include "support/lra/pathfinder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/parallel/parallel.h>

#include "support/lra/pathfinder_scene.h"
#include "tests/support/real_data.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

std::vector<PathfinderImage> draw(const PathfinderOptions& options, uint64_t seed, int64_t count) {
  std::vector<PathfinderImage> images(static_cast<size_t>(count));
  parallel_tasks(count, [&](int64_t i) { images[i] = pathfinder_image(options, seed, static_cast<uint64_t>(i)); });
  return images;
}

/// Statistics of the grey levels of several images.
struct Statistics {
  double mean = 0;
  std::array<double, 2> mean_of_label{};
  std::array<double, 4> above{};  // shares of pixels above 0, 64, 128 and 200
  double ones = 0;                // the share of images with label 1
  int least_maximum = 255;
};

Statistics statistics_of(const std::vector<PathfinderImage>& images) {
  Statistics s;
  const double count = static_cast<double>(images.size()), pixels = count * PathfinderImage::kPixels;
  std::array<double, 2> images_of_label{};
  for (const PathfinderImage& image : images) {
    images_of_label[image.label] += 1;
    const double sum = std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0);
    s.mean += sum / pixels;
    s.mean_of_label[image.label] += sum / PathfinderImage::kPixels;
    for (size_t i = 0; i < s.above.size(); ++i) {
      constexpr std::array<int, 4> kLevels{0, 64, 128, 200};
      const auto above = std::ranges::count_if(image.pixels, [&](int grey) { return grey > kLevels[i]; });
      s.above[i] += static_cast<double>(above) / pixels;
    }
    s.least_maximum = std::min<int>(s.least_maximum, std::ranges::max(image.pixels));
  }
  for (int label = 0; label < 2; ++label) s.mean_of_label[label] /= images_of_label[label];
  s.ones = images_of_label[1] / count;
  return s;
}

void check_near(double value, double expected) {
  CAPTURE(value);
  CAPTURE(expected);
  CHECK(std::abs(value / expected - 1) < 0.1);
}

void check_greys(const Statistics& s) {
  check_near(s.mean, 20.1);
  for (const double mean : s.mean_of_label) check_near(mean, 20.1);
  const std::array<double, 4> above{0.34, 0.125, 0.084, 0.016};
  for (size_t i = 0; i < above.size(); ++i) check_near(s.above[i], above[i]);
  check_near(s.ones, 0.5);
  CHECK(s.least_maximum == 255);
}

}  // namespace

TEST_CASE("pathfinder: greys are those of the original's images") {
  check_greys(statistics_of(draw({}, 1, 600)));

  const auto path = linnet::test::real_data("../fixtures/mechanisms/pathfinder32_samples.safetensors");
  if (!path) return;
  const TensorMap samples = read_safetensors(*path).tensors;
  const std::vector<int32_t> pixels = samples.at("images").to_vector<int32_t>();
  const auto labels = samples.at("labels").to(DType::int64).to_vector<int64_t>();
  std::vector<PathfinderImage> images(labels.size());
  for (size_t i = 0; i < images.size(); ++i) {
    images[i].label = static_cast<uint8_t>(labels[i]);
    std::copy_n(pixels.begin() + PathfinderImage::kPixels * static_cast<int64_t>(i), PathfinderImage::kPixels,
                images[i].pixels.begin());
  }
  check_greys(statistics_of(images));
}

TEST_CASE("pathfinder: as many attempts and distractors as in 1,000 images of the original") {
  constexpr int64_t kScenes = 600;
  double attempts = 0, distractors = 0;
  for (uint64_t i = 0; i < kScenes; ++i) {
    const PathfinderScene scene = pathfinder_scene({}, 2, i);
    attempts += static_cast<double>(scene.attempts) / kScenes;
    distractors += static_cast<double>(scene.distractors.size()) / kScenes;
  }
  check_near(attempts, 313.7);
  check_near(distractors, 1.157);
}

TEST_CASE("pathfinder: an image depends on the options, the seed and its number alone") {
  const auto with_threads = [](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    const std::vector<PathfinderImage> images = draw({}, 3, 24);
    set_num_threads(before);
    return images;
  };
  const std::vector<PathfinderImage> images = with_threads(1);
  CHECK(with_threads(2) == images);
  CHECK(with_threads(4) == images);
  CHECK(pathfinder_image({}, 3, 17) == images[17]);
  CHECK(images[0] != images[1]);
  CHECK(pathfinder_image({}, 4, 17).pixels != images[17].pixels);
  CHECK(pathfinder_image({.distractors = 0}, 3, 17).pixels != pathfinder_image({.contour_length = 6}, 3, 17).pixels);
}

TEST_CASE("pathfinder: markers lie on the ends of one snake or of both, as the label says") {
  int markers_of_first = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    const PathfinderScene scene = pathfinder_scene({.contour_length = 6}, 5, i);
    const PathfinderImage image = pathfinder_image({.contour_length = 6}, 5, i);
    CHECK(scene.snakes[0].size() == 6);
    CHECK(scene.snakes[1].size() == 6);
    CHECK(image.label == (scene.tail_marked == scene.head_marked ? 1 : 0));
    const Pixel tail = scene.snakes[scene.tail_marked].front().centre;
    const Pixel head = scene.snakes[scene.head_marked].back().centre;
    // No line is as wide as a marker, whose pixels are at least as bright as 1 of 2.4.
    for (const Pixel centre : {tail, head}) {
      for (const Pixel beside : {Pixel{0, 0}, Pixel{-1, 0}, Pixel{0, -1}, Pixel{-1, -1}}) {
        CHECK(image.pixels[(centre.row + beside.row) * 32 + centre.column + beside.column] > 90);
      }
    }
    markers_of_first += scene.tail_marked == 0;
  }
  CHECK(markers_of_first > 35);
  CHECK(markers_of_first < 65);
}

TEST_CASE("pathfinder: an image is the brightest of its parts, stretched to 0 … 255") {
  for (uint64_t i = 0; i < 30; ++i) {
    CAPTURE(i);
    const PathfinderScene scene = pathfinder_scene({}, 8, i);
    std::vector<double> picture(PathfinderImage::kPixels);
    const auto brighten = [&](size_t pixel, double grey) { picture[pixel] = std::max(picture[pixel], grey); };
    const auto draw_snake = [&](const Snake& snake, double contrast) {
      for (const PlacedPaddle& placed : snake) {
        visit_cells(placed.centre,
                    [&](int pixel, int cell) { brighten(pixel, contrast * placed.paddle->line[cell]); });
      }
    };
    for (const Snake& snake : scene.snakes) draw_snake(snake, 1.5);
    for (const Snake& snake : scene.distractors) draw_snake(snake, 2);
    for (const Pixel centre :
         {scene.snakes[scene.tail_marked].front().centre, scene.snakes[scene.head_marked].back().centre}) {
      const std::vector<uint8_t> marker = marker_image(centre);
      for (size_t pixel = 0; pixel < marker.size(); ++pixel) brighten(pixel, marker[pixel]);
    }
    const double brightest = std::ranges::max(picture);
    std::array<uint8_t, PathfinderImage::kPixels> expected{};
    for (size_t pixel = 0; pixel < picture.size(); ++pixel) {
      expected[pixel] = static_cast<uint8_t>(std::lround(255 * picture[pixel] / brightest));
    }
    CHECK(pathfinder_image({}, 8, i).pixels == expected);
  }
}

TEST_CASE("pathfinder: the length of snakes and the number of distractors are options") {
  for (const int64_t length : {2, 3, 9}) {
    CAPTURE(length);
    const PathfinderScene scene = pathfinder_scene({.contour_length = length, .distractors = 40}, 1, 0);
    CHECK(std::ssize(scene.snakes[0]) == length);
    CHECK(std::ssize(scene.snakes[1]) == length);
    CHECK(!scene.distractors.empty());
    for (const Snake& snake : scene.distractors) CHECK(std::ssize(snake) == std::max<int64_t>(length / 3, 1));
  }
  CHECK(pathfinder_scene({.contour_length = 2, .distractors = 0}, 1, 0).distractors.empty());
}

TEST_CASE("pathfinder: options out of range") {
  const auto contains = [](const char* text) { return doctest::Contains(text); };
  CHECK_THROWS_WITH_AS(pathfinder_image({.contour_length = 1}, 0, 0),
                       contains("contour_length must be from 2 to 20, not 1"), ValueError);
  CHECK_THROWS_WITH_AS(pathfinder_image({.contour_length = 21}, 0, 0), contains("not 21"), ValueError);
  CHECK_THROWS_WITH_AS(pathfinder_image({.distractors = -1}, 0, 0),
                       contains("distractors must be from 0 to 100, not -1"), ValueError);
  CHECK_THROWS_WITH_AS(pathfinder_image({.distractors = 101}, 0, 0), contains("not 101"), ValueError);
}
