/// Pathfinder's images as a data set.

#include "support/lra/pathfinder_data.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "support/lra/pathfinder.h"
#include "support/settings/program.h"
#include "support/tasks/task.h"
#include "tests/examples/plot/picture.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::examples::test::Picture;
using linnet::test::TemporaryFolder;
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

TEST_CASE("pathfinder data: every pixel is a token, black ones at the end too") {
  LraSettings settings{.contour_length = 6, .distractors = 0};
  Examples examples{{{2, 1024}, std::vector<uint8_t>(2048, 0)}, {0, 1}};
  examples.sequences.bytes[0] = 7;  // an image that is black except for its first pixel, and a black image
  const LabelledSequences seen = pathfinder_sequences(settings, examples);
  CHECK(seen.lengths() == std::vector<int64_t>{1024, 1024});
  const std::vector<int64_t> both{0, 1};
  const nn::Batch batch = seen.collate(both, {});
  CHECK(batch.inputs.to_vector<int64_t>()[0] == 8);
  CHECK(batch.inputs.to_vector<int64_t>()[2047] == 1);
  CHECK(std::ranges::count(batch.others[0].to_vector<int64_t>(), 1) == 2048);
  settings.black_is_padding = true;
  const nn::Batch hidden = pathfinder_sequences(settings, examples).collate(both, {});
  CHECK(hidden.inputs.to_vector<int64_t>()[0] == 7);
  CHECK(hidden.inputs.shape() == Shape{2, 1024});
  CHECK(std::ranges::count(hidden.others[0].to_vector<int64_t>(), 1) == 1);
}

TEST_CASE("pathfinder data: with --downsample a token is the mean of a square of pixels") {
  LraSettings settings{.downsample = 2, .contour_length = 6, .distractors = 0};
  Examples examples{{{2, 1024}, std::vector<uint8_t>(2048, 0)}, {0, 1}};
  for (const size_t pixel : {0, 1, 32, 33}) examples.sequences.bytes[1024 + pixel] = 200;  // the first square
  examples.sequences.bytes[1024 + 2] = 100;                                                // a quarter of the second
  const LabelledSequences seen = pathfinder_sequences(settings, examples);
  CHECK(seen.lengths() == std::vector<int64_t>{256, 256});
  const std::vector<int64_t> second{1};
  const nn::Batch batch = seen.collate(second, {});
  CHECK(batch.targets.item<int64_t>() == 1);
  const std::vector<int64_t> ids = batch.inputs.to_vector<int64_t>();
  CHECK(std::vector<int64_t>(ids.begin(), ids.begin() + 3) == std::vector<int64_t>{201, 26, 1});
  settings.downsample = 3;
  CHECK_THROWS_WITH_AS(pathfinder_sequences(settings, examples),
                       "--downsample 3: does not divide images of 32×32 pixels; choose a divisor of both",
                       UsageError);
}

TEST_CASE("pathfinder data: a wrong --downsample is refused before images are generated") {
  const TemporaryFolder folder;
  Settings s = preset("pathfinder", "lra-pathfinder-small");
  s.data = folder.path().string();
  s.lra.downsample = 3;
  CHECK_THROWS_AS(load_pathfinder(s), UsageError);
  CHECK(folder.file_count() == 0);
}

TEST_CASE("pathfinder data: black pixels that are padding change nothing in any model, wherever they are") {
  const LraSettings settings{.black_is_padding = true, .contour_length = 6, .distractors = 0};
  const LabelledSequences data = pathfinder_sequences(settings, pathfinder_examples(settings, 2, [](int64_t) {}));
  const std::vector<int64_t> both{0, 1};
  const nn::Batch batch = data.collate(both, {});
  const Tensor mask = batch.others[0];
  const Tensor hidden = where(mask, batch.inputs, full({2, 1024}, 200, DType::int64));
  const std::vector<int64_t> kept = mask.to_vector<int64_t>();
  const auto last = std::ranges::find(kept.rbegin(), kept.rend(), 1);
  REQUIRE(std::ranges::count(kept.begin(), last.base(), 0) > 100);  // padding between tokens
  for (const std::string& attention : nn::attention_mechanisms()) {
    CAPTURE(attention);
    Settings s = settings_of(attention, preset("pathfinder", "lra-pathfinder-small"));
    s.attention = attention;
    s.layers = 1;
    Generator rng(1);
    nn::SequenceClassifier model(rng, sequence_model_config(s));
    model.eval();
    const NoGrad no_grad;
    const std::vector<float> plain = model(batch.inputs, mask).to_vector<float>();
    CHECK(model(hidden, mask).to_vector<float>() == plain);
    CHECK(model(batch.inputs, ones({2, 1024}, DType::boolean)).to_vector<float>() != plain);
  }
}

TEST_CASE("pathfinder data: a sheet of eight images of each label") {
  const TemporaryFolder folder;
  draw_pathfinder_sheet({.contour_length = 6, .distractors = 0}, folder / "sheet.png");
  const Picture sheet(folder / "sheet.png");
  CHECK(sheet.width() > 8 * 32 * 4);
  CHECK(sheet.height() > 2 * 32 * 4);
}

TEST_CASE("pathfinder data: options that the generator does not take are named by their flags") {
  const LraSettings settings{.contour_length = 1, .distractors = 0};
  CHECK_THROWS_WITH_AS(pathfinder_examples(settings, 1, [](int64_t) {}),
                       doctest::Contains("--contour-length 1 --distractors 0: "), UsageError);
}
