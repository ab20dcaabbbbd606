/// Pathfinder's images as a data set.

#include "support/lra/pathfinder_data.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/lra/pathfinder.h"
#include "support/settings/program.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::WithThreads;

TEST_CASE("pathfinder data: image i of the generator is example i, at any number of threads") {
  const LraSettings settings{.contour_length = 6, .distractors = 0, .data_seed = 5};
  const auto make = [&](int threads) {
    const WithThreads with(threads);
    return pathfinder_examples(settings, 40, [](int64_t) {});
  };
  const Examples one = make(1), three = make(3);
  CHECK(one.sequences.shape == Shape{40, 1024});
  CHECK(one.sequences.bytes == three.sequences.bytes);
  CHECK(one.labels == three.labels);
  const PathfinderImage image = pathfinder_image({.contour_length = 6, .distractors = 0}, 5, 39);
  CHECK(std::equal(image.pixels.begin(), image.pixels.end(), one.sequences.bytes.end() - 1024));
  CHECK(one.labels[39] == image.label);
  const auto ones = std::ranges::count(one.labels, 1);
  CHECK(ones > 5);
  CHECK(ones < 35);
}

TEST_CASE("pathfinder data: options that the generator does not take are named by their flags") {
  const LraSettings settings{.contour_length = 1, .distractors = 0};
  CHECK_THROWS_WITH_AS(pathfinder_examples(settings, 1, [](int64_t) {}),
                       doctest::Contains("--contour-length 1 --distractors 0: "), UsageError);
}
