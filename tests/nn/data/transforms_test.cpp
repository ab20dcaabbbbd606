#include <linnet/nn/data/transforms.h>

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/core/views.h>
#include <linnet/nn/data/loader.h>
#include <linnet/nn/data/mnist.h>
#include <linnet/nn/data/subset.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>

using namespace linnet;

namespace {

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("normalize: each channel by its own numbers, or all by one") {
  const Tensor x = arange(8).to(DType::float64).reshape({1, 2, 2, 2});
  const Tensor y = nn::normalize({1, 5}, {2, 0.5})(x, {});
  CHECK(y.dtype() == DType::float64);
  CHECK(y.to_vector<double>() == Numbers{-0.5, 0, 0.5, 1, -2, 0, 2, 4});
  CHECK(nn::normalize({1}, {2})(tensor({{1, 3}, {5, 7}}), {}).to_vector<double>() == Numbers{0, 1, 2, 3});
  CHECK(nn::normalize({1, 2}, {1, 1})(tensor({{1, 3}, {5, 7}}), {}).to_vector<double>() == Numbers{0, 1, 4, 5});
  CHECK_THROWS_WITH_AS(nn::normalize({1, 2, 3}, {1, 1, 1})(x, {}),
                       doctest::Contains("inputs[1, 2, 2, 2] do not have 3 channels in dim 1"), ShapeError);
  CHECK_THROWS_WITH_AS(nn::normalize({1}, {1})(arange(4).reshape({2, 2}), {}),
                       doctest::Contains("normalize: inputs are int64; convert them with to(DType::float32)"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(nn::normalize({1}, {0}), doctest::Contains("a standard deviation is 0; it must be above 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::normalize({1, 2}, {1}),
                       doctest::Contains("2 means and 1 standard deviations; each channel needs one of both"),
                       ValueError);
  CHECK_THROWS_AS(nn::normalize({}, {}), ValueError);
}

TEST_CASE("TransformedDataset: one of another one draws other numbers") {
  const nn::TensorDataset data({arange(200).to(DType::float32).reshape({100, 1, 1, 2})});
  const nn::TransformedDataset once(data, {nn::random_horizontal_flip()}),
      twice(once, {nn::random_horizontal_flip()});
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 100; ++i) all.push_back(i);
  // With the same numbers the second flip would undo the first.
  CHECK(twice.collate(all, {7, 8}).inputs.to_vector<double>() !=
        data.collate(all, {7, 8}).inputs.to_vector<double>());
}

TEST_CASE("random_shift: every channel of an image moves alike, as MNIST's do") {
  std::vector<uint8_t> pixels(90);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
  nn::LabelledImages images(pixels, {0, 1}, 9, 5);
  const std::vector<int64_t> both{0, 1};
  const RandomKey key{3, 4};
  // The digits' own normalisation is undone, so that the pixels that were shifted in are 0.
  const auto grey = [&] { return (images.collate(both, key).inputs * 0.3081 + 0.1307).reshape({2, 1, 9, 5}); };
  const Tensor still = grey();
  images.set_shift(2);
  const Tensor moved = nn::random_shift(2)(concat({still, still * 2}, 1), key);
  CHECK(allclose(moved.narrow(1, 0, 1), grey(), 1e-5, 1e-6));
  CHECK(moved.narrow(1, 1, 1).to_vector<double>() == (moved.narrow(1, 0, 1) * 2).to_vector<double>());
  CHECK(moved.to_vector<double>() != concat({still, still * 2}, 1).to_vector<double>());
  CHECK(nn::random_shift(0)(still, key).to_vector<double>() == still.to_vector<double>());
  CHECK_THROWS_AS(nn::random_shift(-1), ValueError);
  CHECK_THROWS_WITH_AS(nn::random_shift(1)(still.reshape({2, 45}), key),
                       doctest::Contains("random_shift: inputs[2, 45] are no images [B, C, H, W]; reshape them"),
                       ShapeError);
  CHECK_THROWS_AS(nn::random_shift(1)(zeros({1, 1, 2, 2}, DType::int64), key), DTypeError);
}

TEST_CASE("random_horizontal_flip: an image is mirrored whole, left to right, as often as p says") {
  const Tensor image = tensor({1, 2, 3, 4, 5, 6}, {1, 1, 2, 3});
  CHECK(nn::random_horizontal_flip(1)(image, {}).to_vector<double>() == Numbers{3, 2, 1, 6, 5, 4});
  CHECK(nn::random_horizontal_flip(0)(image, {}).to_vector<double>() == Numbers{1, 2, 3, 4, 5, 6});
  const Tensor many = nn::random_horizontal_flip(0.25)(image.to(DType::float64).expand({1000, 2, 2, 3}), {5, 6});
  int64_t flipped = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const Numbers one = many.select(0, i).to_vector<double>();
    CHECK(Numbers(one.begin(), one.begin() + 6) == Numbers(one.begin() + 6, one.end()));
    flipped += one[0] == 3;
  }
  CHECK(flipped > 180);  // five standard deviations are 68
  CHECK(flipped < 320);
  CHECK(nn::random_horizontal_flip()(zeros({2, 1, 0, 3}), {}).shape() == Shape{2, 1, 0, 3});
  CHECK(nn::random_horizontal_flip()(zeros({2, 1, 3, 0}), {}).shape() == Shape{2, 1, 3, 0});
  CHECK_THROWS_AS(nn::random_horizontal_flip(1.5), ValueError);
  CHECK_THROWS_AS(nn::random_horizontal_flip(-0.1), ValueError);
}

TEST_CASE("TransformedDataset: transforms follow each other, each with a stream of its own") {
  const nn::TensorDataset data({arange(6).to(DType::float32).reshape({6, 1, 1, 1}), arange(6)});
  std::vector<std::pair<uint64_t, uint64_t>> keys;
  const nn::Transform spy = [&](const Tensor& x, RandomKey key) {
    keys.emplace_back(key.seed, key.stream);
    return x * 2 + 1;
  };
  const nn::TransformedDataset transformed(data, {spy, spy});
  CHECK(transformed.size() == 6);
  const std::vector<int64_t> indices{2, 5};
  const nn::Batch batch = transformed.collate(indices, {7, 8});
  CHECK(batch.inputs.to_vector<double>() == Numbers{11, 23});
  CHECK(batch.targets.to_vector<double>() == Numbers{2, 5});
  transformed.collate(indices, {7, 9});
  transformed.collate(indices, {7, 8});
  REQUIRE(keys.size() == 6);
  CHECK(keys[0] == keys[4]);
  CHECK(keys[1] == keys[5]);
  // The transforms, the data set itself and the next batch all draw different numbers.
  const std::set<std::pair<uint64_t, uint64_t>> all{keys[0], keys[1], keys[2], keys[3], {7, 8}, {7, 9}};
  CHECK(all.size() == 6);
}
