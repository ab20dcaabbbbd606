#include <doctest/doctest.h>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/values.h"

using namespace linnet;
using test::Doubles;
using test::values;

namespace {

/// 1, 2, 3, … in a shape.
Tensor numbered(const Shape& shape) { return add(arange(shape.numel(), DType::float32), 1).reshape(shape); }

}  // namespace

TEST_CASE("flip") {
  const Tensor x = numbered({2, 3});
  CHECK(values(flip(x, 0)) == Doubles{4, 5, 6, 1, 2, 3});
  CHECK(values(flip(x, {-1})) == Doubles{3, 2, 1, 6, 5, 4});
  CHECK(values(flip(x, {1, 0})) == Doubles{6, 5, 4, 3, 2, 1});
  CHECK(values(flip(x, {})) == values(x));
  CHECK(values(flip(x.t(), 0)) == Doubles{3, 6, 2, 5, 1, 4});
  CHECK(values(flip(x.slice(1, 0, 3, 2), 1)) == Doubles{3, 1, 6, 4});
  CHECK(values(flip(tensor({1, 2}).unsqueeze(1).expand({2, 2}), {0, 1})) == Doubles{2, 2, 1, 1});
  CHECK(values(flip(numbered({2, 2, 2}), {0, 2})) == Doubles{6, 5, 8, 7, 2, 1, 4, 3});
  CHECK(flip(zeros({0, 2}), {0, 1}).shape() == Shape{0, 2});
  CHECK(flip(x, 0).is_contiguous());
  CHECK(values(flip(arange(100'000), 0)) == values(99'999 - arange(100'000)));
  CHECK(flip(tensor({1, 0}, DType::boolean), 0).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK_THROWS_WITH_AS(flip(x, 2), doctest::Contains("flip: dim 2 does not exist"), ShapeError);
  CHECK_THROWS_WITH_AS(flip(x, {0, -2}), doctest::Contains("flip: dims [0, -2] name dim 0 of x[2, 3] twice"),
                       ShapeError);
}

TEST_CASE("roll") {
  const Tensor x = numbered({2, 3});
  CHECK(values(roll(x, 1, 1)) == Doubles{3, 1, 2, 6, 4, 5});
  CHECK(values(roll(x, -1, -1)) == Doubles{2, 3, 1, 5, 6, 4});
  CHECK(values(roll(x, 7, 1)) == values(roll(x, 1, 1)));
  CHECK(values(roll(x, -7, 1)) == values(roll(x, -1, 1)));
  CHECK(values(roll(x, {1, 1}, {0, 1})) == Doubles{6, 4, 5, 3, 1, 2});
  CHECK(values(roll(x, 1)) == Doubles{6, 1, 2, 3, 4, 5});
  CHECK(values(roll(x.t(), 1)) == Doubles{6, 1, 4, 2, 5, 3});
  CHECK(roll(x, 1).shape() == Shape{2, 3});
  CHECK(roll(scalar(3), 1).item() == 3);
  CHECK(roll(zeros({0, 2}), 1, 0).shape() == Shape{0, 2});
  CHECK_THROWS_WITH_AS(roll(x, {1, 2}, 0), doctest::Contains("roll: 2 shifts for 1 dims"), ShapeError);
  CHECK_THROWS_WITH_AS(roll(x, {1, 2}), doctest::Contains("roll: 2 shifts for 0 dims"), ShapeError);
  CHECK_THROWS_WITH_AS(roll(x, {}), doctest::Contains("roll: 0 shifts for 0 dims"), ShapeError);
  CHECK_THROWS_WITH_AS(roll(x, 1, 2), doctest::Contains("roll: dim 2 does not exist"), ShapeError);
}

TEST_CASE("repeat and tile") {
  const Tensor x = numbered({2});
  CHECK(values(repeat(x, 2)) == Doubles{1, 2, 1, 2});
  CHECK(values(repeat(x, {2, 1})) == Doubles{1, 2, 1, 2});
  CHECK(repeat(x, {2, 1}).shape() == Shape{2, 2});
  CHECK(values(repeat(numbered({2, 2}), {1, 2})) == Doubles{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(values(repeat(numbered({2, 2}).t(), {2, 1})) == Doubles{1, 3, 2, 4, 1, 3, 2, 4});
  CHECK(repeat(scalar(7), {2, 2}).shape() == Shape{2, 2});
  CHECK(repeat(x, 0).shape() == Shape{0});
  CHECK(repeat(zeros({0, 3}), {2, 2}).shape() == Shape{0, 6});
  CHECK(repeat(x, Shape::filled(64, 1)).shape().rank() == 64);
  CHECK(values(repeat(numbered({1, 2}), {3, 1})) == Doubles{1, 2, 1, 2, 1, 2});
  Tensor copy = repeat(x, 1);
  copy.fill_(0);
  CHECK(values(x) == Doubles{1, 2});
  CHECK(values(tile(numbered({2, 2}), 2)) == Doubles{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(values(tile(x, {2, 2})) == Doubles{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(values(tile(x, {})) == Doubles{1, 2});
  CHECK_THROWS_WITH_AS(repeat(numbered({1, 2}), 2), doctest::Contains("repeat: 1 sizes for x[1, 2]"), ShapeError);
  CHECK_THROWS_WITH_AS(repeat(x, -1), doctest::Contains("repeat: sizes [-1] have a negative one"), ShapeError);
  CHECK_THROWS_WITH_AS(tile(x, -1), doctest::Contains("tile: sizes [-1] have a negative one"), ShapeError);
}

TEST_CASE("repeat_interleave") {
  const Tensor x = numbered({2, 2});
  const auto times = [](const std::vector<int64_t>& numbers) { return tensor(numbers); };
  CHECK(values(repeat_interleave(x, 2)) == Doubles{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(values(repeat_interleave(x, 2, 0)) == Doubles{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(values(repeat_interleave(x.t(), 2, -1)) == Doubles{1, 1, 3, 3, 2, 2, 4, 4});
  CHECK(values(repeat_interleave(x, times({0, 3}), 1)) == Doubles{2, 2, 2, 4, 4, 4});
  CHECK(values(repeat_interleave(x, times({2}), 1)) == Doubles{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(values(repeat_interleave(x, times({1, 0, 0, 2}))) == Doubles{1, 4, 4});
  CHECK(repeat_interleave(x, scalar(2, DType::int32), 0).shape() == Shape{4, 2});
  CHECK(repeat_interleave(x, 0, 0).shape() == Shape{0, 2});
  CHECK(values(repeat_interleave(scalar(7), 3)) == Doubles{7, 7, 7});
  CHECK(repeat_interleave(zeros({0, 2}), times({}), 0).shape() == Shape{0, 2});
  CHECK_THROWS_WITH_AS(repeat_interleave(x, -1), doctest::Contains("an element is repeated -1 times"), ValueError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, times({1, -2}), 0), doctest::Contains("an element is repeated -2 times"),
                       ValueError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, times({1, 2, 3}), 0),
                       doctest::Contains("repeat_interleave: repeats[3] must be [2], the size of the dim"),
                       ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, times({1, 2}).unsqueeze(0), 0), ShapeError);
  CHECK_THROWS_WITH_AS(repeat_interleave(x, ones({2}), 0), doctest::Contains("repeats is float32"), DTypeError);
  CHECK_THROWS_AS(repeat_interleave(x, 2, 2), ShapeError);
}

TEST_CASE("meshgrid") {
  const Tensor x = numbered({2}), y = numbered({3});
  const std::vector<Tensor> grids = meshgrid({x, y});
  CHECK(values(grids[0]) == Doubles{1, 1, 1, 2, 2, 2});
  CHECK(values(grids[1]) == Doubles{1, 2, 3, 1, 2, 3});
  CHECK(grids[1].shape() == Shape{2, 3});
  const std::vector<Tensor> turned = meshgrid({x, y}, "xy");
  CHECK(values(turned[0]) == Doubles{1, 2, 1, 2, 1, 2});
  CHECK(values(turned[1]) == Doubles{1, 1, 2, 2, 3, 3});
  CHECK(turned[0].shape() == Shape{3, 2});
  CHECK(meshgrid({x, y, scalar(4)}, "xy")[2].shape() == Shape{3, 2, 1});
  CHECK(meshgrid({x}, "xy")[0].shape() == Shape{2});
  CHECK(meshgrid({x, zeros({0})})[0].shape() == Shape{2, 0});
  CHECK_THROWS_WITH_AS(meshgrid({}), doctest::Contains("meshgrid: no tensors were given"), ValueError);
  CHECK_THROWS_WITH_AS(meshgrid({x}, "yx"), doctest::Contains("indexing is \"yx\"; it is \"ij\" or \"xy\""),
                       ValueError);
  CHECK_THROWS_WITH_AS(meshgrid({x, zeros({1, 2})}), doctest::Contains("tensor 1 is [1, 2]; rank 1 or 0 is needed"),
                       ShapeError);
}

TEST_CASE("unbind: views along a dim") {
  Tensor x = numbered({2, 3});
  const std::vector<Tensor> rows = unbind(x), columns = unbind(x, -1);
  REQUIRE(rows.size() == 2);
  REQUIRE(columns.size() == 3);
  CHECK(values(rows[1]) == Doubles{4, 5, 6});
  CHECK(values(columns[2]) == Doubles{3, 6});
  x[{1, 2}] = 7;
  CHECK(values(rows[1]) == Doubles{4, 5, 7});
  CHECK(values(columns[2]) == Doubles{3, 7});
  CHECK(unbind(zeros({0, 2})).empty());
  CHECK(unbind(zeros({2, 0})).back().shape() == Shape{0});
  CHECK_THROWS_WITH_AS(unbind(scalar(1), 0, {"a.cpp", 7}),
                       "unbind: dim 0 does not exist: the tensor has rank 0 (a.cpp:7)", ShapeError);
}

TEST_CASE("movedim: the other dims keep their order") {
  const Tensor x = numbered({2, 3, 4, 5});
  CHECK(movedim(x, 1, -1).shape() == Shape{2, 4, 5, 3});
  CHECK(movedim(x, {0, 1}, {-1, -2}).shape() == Shape{4, 5, 3, 2});
  CHECK(movedim(x, {3, 0}, {0, 2}).shape() == Shape{5, 3, 2, 4});
  CHECK(movedim(x, {}, {}).shape() == x.shape());
  CHECK(values(movedim(x, {3, 0}, {0, 2})) == values(x.permute({3, 1, 0, 2})));
  Tensor moved = movedim(x, 0, 2);
  moved[{0, 0, 1, 0}] = -1;  // of x, because it is a view
  CHECK(x[{1, 0, 0, 0}].item() == -1);
  CHECK_THROWS_WITH_AS(movedim(x, {0, 1}, 1, {"a.cpp", 7}),
                       "movedim: source [0, 1] and destination [1] differ in length; each dim goes to one place "
                       "(a.cpp:7)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(movedim(x, {0, -4}, {1, 2}), doctest::Contains("names a dim of x[2, 3, 4, 5] twice"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(movedim(x, {0, 1}, {1, 1}), doctest::Contains("names a dim of x[2, 3, 4, 5] twice"),
                       ShapeError);
  CHECK_THROWS_AS(movedim(x, 4, 0), ShapeError);
}

TEST_CASE("expand_as, reshape_as and view_as take another tensor's shape") {
  const Tensor x = numbered({2, 3}), stacked = zeros({2, 2, 3});
  CHECK(values(expand_as(x, stacked)) == Doubles{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(values(reshape_as(x.t(), zeros({6}))) == Doubles{1, 4, 2, 5, 3, 6});
  CHECK(values(view_as(x, zeros({3, 2}))[2]) == Doubles{5, 6});
  CHECK_THROWS_WITH_AS(expand_as(stacked, x), doctest::Contains("expand_as: shape [2, 3] has fewer dim"), ShapeError);
  CHECK_THROWS_WITH_AS(reshape_as(x, stacked), doctest::Contains("reshape_as: "), ShapeError);
  CHECK_THROWS_WITH_AS(view_as(x.t(), zeros({6})), doctest::Contains("view_as: "), ShapeError);
}
