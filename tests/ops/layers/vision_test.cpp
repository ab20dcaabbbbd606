#include <cmath>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/views.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/vision.h>
#include <linnet/ops/layers/activation.h>
#include <linnet/ops/layers/distance.h>
#include <linnet/ops/layers/pooling.h>

using namespace linnet;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && all(eq(a, b)).item<bool>();
}

}  // namespace

TEST_CASE("interpolate: integers, several dims from one number, and the same size") {
  const Tensor x = arange(6).reshape({1, 1, 2, 3});
  CHECK(same(interpolate(x, {.scale_factor = {2}}).flatten(),
             tensor({0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 3, 3, 4, 4, 5, 5}, DType::int64)));
  const Tensor y = x.to(DType::float64);
  for (const InterpolateMode mode : {InterpolateMode::linear, InterpolateMode::cubic}) {
    CHECK(same(interpolate(y, {.size = {2, 3}, .mode = mode}), y));
  }
}

TEST_CASE("interpolate: options that do not fit") {
  const Tensor x = zeros({1, 1, 4, 4});
  const auto says = [&](const InterpolateOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(interpolate(x, options), doctest::Contains(text), ValueError);
  };
  says({}, "either size or scale_factor is needed");
  says({.size = {2}, .scale_factor = {2}}, "either size or scale_factor is needed");
  says({.size = {2, 2, 2}}, "size {2, 2, 2} has 3 numbers; 1 or 2 are needed");
  says({.size = {0}}, "size contains 0");
  says({.scale_factor = {-1}}, "scale_factor contains -1");
  says({.scale_factor = {0.1}}, "a scale_factor of 0.1 leaves no elements of x[1, 1, 4, 4]");
  says({.size = {2}, .align_corners = true}, "align_corners is for the modes linear and cubic");
  CHECK_THROWS_AS(interpolate(zeros({4, 4}), {.size = {2}}), ShapeError);
  CHECK_THROWS_AS(interpolate(zeros({1, 1, 0, 4}), {.size = {2}}), ShapeError);
  CHECK_THROWS_AS(interpolate(arange(4).reshape({1, 1, 4}), {.size = {2}, .mode = InterpolateMode::linear}),
                  DTypeError);
}

TEST_CASE("pixel_shuffle, pixel_unshuffle and adaptive_avg_pool2d: shapes that do not fit") {
  CHECK_THROWS_WITH_AS(pixel_shuffle(zeros({1, 6, 2, 2}), 2), doctest::Contains("are not a multiple of 2²"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(pixel_unshuffle(zeros({1, 6, 3, 2}), 2), doctest::Contains("are not multiples of 2"),
                       ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({6, 2, 2}), 2), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({1, 6, 2, 2}), 0), ValueError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 1, 2}), 1), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 1, 2, 2}), 0), ValueError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(zeros({1, 1, 0, 2}), 1), ShapeError);
}

TEST_CASE("pad continues integers and refuses widths that the size does not allow") {
  const Tensor x = arange(3);
  CHECK(same(pad(x, {2, 2}, PadMode::reflect), tensor({2, 1, 0, 1, 2, 1, 0}, DType::int64)));
  CHECK(same(pad(x, {2, 3}, PadMode::replicate), tensor({0, 0, 0, 1, 2, 2, 2, 2}, DType::int64)));
  CHECK(same(pad(x, {3, 1}, PadMode::circular), tensor({0, 1, 2, 0, 1, 2, 0}, DType::int64)));
  Tensor copy = pad(x, {0, 0}, PadMode::reflect);
  copy.fill_(7);
  CHECK(same(x, arange(3)));  // as for the other widths, the result is a copy
  CHECK_THROWS_WITH_AS(pad(x, {3, 0}, PadMode::reflect),
                       doctest::Contains("a width of 3 is too large for dim 0 of x[3]; it can be at most 2"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pad(x, {0, 4}, PadMode::circular), doctest::Contains("it can be at most 3"), ValueError);
  CHECK_THROWS_WITH_AS(pad(zeros({0}), {1, 0}, PadMode::replicate),
                       doctest::Contains("an empty dim has no element to repeat"), ValueError);
  CHECK_THROWS_AS(pad(x, {-1, 0}, PadMode::reflect), ValueError);
  CHECK_THROWS_AS(pad(x, {1}, PadMode::reflect), ValueError);
}

TEST_CASE("index: columns of rows, masks, and indices that do not fit") {
  const Tensor x = arange(12).reshape({3, 4});
  CHECK(same(index(x, {arange(3), tensor({3, 0, 1}, DType::int64)}), tensor({3, 4, 9}, DType::int64)));
  CHECK(same(index(x, {tensor({2}, DType::int64)}), tensor({8, 9, 10, 11}, {1, 4}, DType::int64)));
  CHECK(same(index(x, {gt(x, 8)}), tensor({9, 10, 11}, DType::int64)));
  CHECK_THROWS_WITH_AS(index(x, {arange(3), arange(3), arange(3)}), doctest::Contains("the indices are for 3 dims"),
                       ShapeError);
  CHECK_THROWS_AS(index(x, {tensor({3}, DType::int64)}), IndexError);
  CHECK_THROWS_AS(index(x, {}), ValueError);
}

TEST_CASE("index_add refuses a source of another shape or dtype") {
  const Tensor x = zeros({3, 4});
  CHECK_THROWS_WITH_AS(
      index_add(x, 0, tensor({0, 1}, DType::int64), zeros({3, 4})),
      doctest::Contains("index[2] must have rank 1, and source[3, 4] must have the shape of x[3, 4]"), ShapeError);
  CHECK_THROWS_AS(index_add(x, 0, tensor({0}, {1, 1}, DType::int64), zeros({1, 4})), ShapeError);
  CHECK_THROWS_AS(index_add(x, 0, tensor({0}, DType::int64), zeros({1, 4}, DType::float64)), DTypeError);
}

TEST_CASE("split by sizes: views that cover the dim") {
  const Tensor x = arange(12).reshape({2, 6});
  auto parts = split(x, {1, 0, 5}, 1);
  REQUIRE(parts.size() == 3);
  CHECK(same(parts[2], tensor({{1, 2, 3, 4, 5}, {7, 8, 9, 10, 11}}, DType::int64)));
  CHECK(parts[1].shape() == Shape{2, 0});
  parts[0].fill_(-1);
  CHECK(x[{1, 0}].item<int64_t>() == -1);
  CHECK_THROWS_WITH_AS(split(x, {1, 4}, 1), doctest::Contains("sizes [1, 4] do not divide dim 1 of x[2, 6]"),
                       ValueError);
  CHECK_THROWS_AS(split(x, {7, -1}, 1), ValueError);
}

TEST_CASE("prelu, distances and their losses: arguments that do not fit") {
  CHECK_THROWS_WITH_AS(prelu(zeros({2, 3}), zeros({2})), doctest::Contains("weight[2] does not fit x[2, 3]"),
                       ShapeError);
  CHECK(same(prelu(scalar(-2.0), full({1}, 0.5)), scalar(-1.0)));
  CHECK_THROWS_AS(prelu(arange(3), zeros({1})), DTypeError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}), zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(cdist(zeros({3}), zeros({2, 3})), ShapeError);
  CHECK(cdist(zeros({0, 3}), zeros({2, 3})).shape() == Shape{0, 2});
  CHECK(same(cdist(zeros({2, 0}), zeros({3, 0}), INFINITY), zeros({2, 3})));
  const Tensor wide = zeros({2, 3}, DType::float64);
  CHECK_THROWS_WITH_AS(cdist(zeros({2, 3}), wide), doctest::Contains("x1 is float32 and x2 is float64"), DTypeError);
  CHECK_THROWS_AS(pairwise_distance(zeros({2, 3}), wide), DTypeError);
  CHECK_THROWS_AS(margin_ranking_loss(zeros({2}), zeros({2}), tensor({0, 1}, DType::int64)), ValueError);
  CHECK_THROWS_AS(triplet_margin_loss(zeros({2, 3}), zeros({2, 3}), zeros({3})), ShapeError);
  CHECK_THROWS_AS(triplet_margin_loss(zeros({1, 2}), zeros({1, 2}), zeros({1, 2}), {.margin = 0}), ValueError);
  CHECK(same(normalize(zeros({1, 2})), zeros({1, 2})));
}

TEST_CASE("prelu: an infinite element that keeps its value leaves the weight's gradient as it is") {
  const Tensor weight = full({1}, 0.5).set_requires_grad();
  backward(minimum(prelu(tensor<float>({INFINITY, -2}), weight), 6).sum());
  CHECK(weight.grad().item() == -2);
}

TEST_CASE("margin_ranking_loss and triplet_margin_loss: ties have a gradient") {
  Tensor a = ones({1}).set_requires_grad(), b = ones({1}).set_requires_grad();
  backward(margin_ranking_loss(a, b, ones({1})));
  CHECK(a.grad().item() == -1);
  CHECK(b.grad().item() == 1);
  Tensor negative = full({1, 1}, 2).set_requires_grad();
  backward(triplet_margin_loss(zeros({1, 1}), ones({1, 1}), negative, {.margin = 1, .eps = 0}));
  CHECK(negative.grad().item() == -1);
}

TEST_CASE("adaptive_avg_pool2d and interpolate: numbers that are not finite stay in their windows") {
  for (const double wrong : {std::nan(""), static_cast<double>(INFINITY)}) {
    Tensor x = zeros({1, 1, 4, 4});
    x[{0, 0, 0, 0}] = wrong;
    const Tensor pooled = adaptive_avg_pool2d(x, 2);
    CHECK(!isfinite(pooled[{0, 0, 0, 0}]).item<bool>());
    CHECK(sum(isfinite(pooled)).item<int64_t>() == 3);
  }
  const Tensor x = tensor({{1, 2}, {-INFINITY, 4}}).reshape({1, 1, 2, 2});
  const Tensor wider = interpolate(x, {.size = {2, 4}, .mode = InterpolateMode::linear});
  CHECK(same(wider.select(2, 0), tensor({1, 1.25, 1.75, 2}, {1, 1, 4})));
}

TEST_CASE("interpolate: sizes that do not change, and steps that a reciprocal would round") {
  const Tensor x = tensor({0, 1, 2, 3}, {1, 1, 4});
  Tensor copy = interpolate(x, {.scale_factor = {1.2}, .mode = InterpolateMode::linear});
  CHECK(same(copy, x));
  copy.fill_(7);
  CHECK(x[{0, 0, 1}].item() == 1);
  const Tensor repeated =
      interpolate(tensor({10, 20}, {1, 1, 2}), {.size = {98}});  // 49·(1/49) rounds to less than 1
  CHECK(sum(eq(repeated, 10)).item<int64_t>() == 49);
  CHECK_THROWS_WITH_AS(interpolate(x, {.scale_factor = {1e300}}), doctest::Contains("leaves too many elements"),
                       ValueError);
  CHECK_THROWS_WITH_AS(interpolate(x, {.scale_factor = {0.1}}), doctest::Contains("leaves no elements"), ValueError);
  CHECK_THROWS_WITH_AS(pixel_shuffle(zeros({1, 4, 2, 2}), int64_t{1} << 32), doctest::Contains("must be at most"),
                       ValueError);
}

TEST_CASE("the strides of pooling are a number or a pair") {
  const Tensor x = zeros({1, 1, 4, 6});
  CHECK(max_pool2d(x, {2, 1}, {.stride = {2, 1}}).shape() == Shape{1, 1, 2, 6});
  CHECK(max_pool2d(x, 2, {.stride = 1}).shape() == Shape{1, 1, 3, 5});
  CHECK(avg_pool2d(x, 2, {.stride = {}}).shape() == Shape{1, 1, 2, 3});
}
