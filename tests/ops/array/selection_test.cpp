#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/array/sorting.h>

#include "tests/support/values.h"

using namespace linnet;
using test::Doubles;
using test::kNan;
using test::values;

namespace {

using Integers = std::vector<int64_t>;

Integers integers(const Tensor& x) { return x.to_vector<int64_t>(); }

}  // namespace

TEST_CASE("nonzero") {
  const Tensor x = tensor({0, 2, 0, -1, kNan, 0}, {2, 3});
  CHECK(integers(nonzero(x)) == Integers{0, 1, 1, 0, 1, 1});
  CHECK(nonzero(x).shape() == Shape{3, 2});
  CHECK(nonzero(x).dtype() == DType::int64);
  CHECK(integers(nonzero(x.t())) == Integers{0, 1, 1, 0, 1, 1});
  CHECK(integers(nonzero(x > 0)) == Integers{0, 1});
  CHECK(integers(nonzero(tensor({0, 1, 5, 0}, {2, 1, 2}))) == Integers{0, 0, 1, 1, 0, 0});
  CHECK(nonzero(zeros({2, 3})).shape() == Shape{0, 2});
  CHECK(nonzero(zeros({0, 3})).shape() == Shape{0, 2});
  CHECK(nonzero(scalar(3)).shape() == Shape{1, 0});
  CHECK(nonzero(scalar(0)).shape() == Shape{0, 0});
}

TEST_CASE("masked_select") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(values(masked_select(x, x > 3)) == Doubles{4, 5, 6});
  CHECK(values(masked_select(x.t(), x.t() > 3)) == Doubles{4, 5, 6});
  CHECK(values(masked_select(x, tensor({1, 0, 1}, DType::boolean))) == Doubles{1, 3, 4, 6});
  CHECK(values(masked_select(tensor({7, 8}), tensor({1, 0, 0, 1}, {2, 2}, DType::boolean))) == Doubles{7, 8});
  CHECK(masked_select(x, x > 9).shape() == Shape{0});
  CHECK(values(masked_select(scalar(2), scalar(1, DType::boolean))) == Doubles{2});
  CHECK(values(masked_select(tensor({kNan, 4}), tensor({0, 1}, DType::boolean))) == Doubles{4});
  CHECK_THROWS_WITH_AS(masked_select(x, x), doctest::Contains("masked_select: mask is float32, not bool"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(masked_select(x, zeros({2, 2}, DType::boolean)),
                       doctest::Contains("masked_select: shapes [2, 3] and [2, 2] do not broadcast"), ShapeError);
}

TEST_CASE("unique") {
  const Tensor x = tensor({3, 1, 3, 2, 1, 3}, {2, 3});
  const auto [elements, inverse, counts] = unique(x);
  CHECK(values(elements) == Doubles{1, 2, 3});
  CHECK(integers(inverse) == Integers{2, 0, 2, 1, 0, 2});
  CHECK(inverse.shape() == x.shape());
  CHECK(integers(counts) == Integers{2, 1, 3});
  CHECK(integers(unique(x.t()).inverse_indices) == Integers{2, 1, 0, 0, 2, 2});
  CHECK(integers(unique(tensor({5, 5}, DType::int32)).values) == Integers{5});
  CHECK(unique(tensor({5, 5}, DType::int32)).values.dtype() == DType::int32);
  CHECK(integers(unique(tensor({1, 0, 1}, DType::boolean)).counts) == Integers{1, 2});
  CHECK(integers(unique(scalar(3)).inverse_indices) == Integers{0});
  CHECK(unique(scalar(3)).inverse_indices.shape() == Shape{});
  CHECK(unique(zeros({0, 2})).values.shape() == Shape{0});
  CHECK(unique(zeros({0, 2})).inverse_indices.shape() == Shape{0, 2});
  CHECK(unique(zeros({0, 2})).counts.shape() == Shape{0});
  CHECK(integers(unique(tensor({kNan, 1, kNan})).counts) == Integers{1, 1, 1});  // PyTorch's
  CHECK(integers(unique(tensor({kNan, 1, kNan})).inverse_indices) == Integers{1, 0, 2});
  CHECK(integers(unique(tensor({0.0, -0.0})).counts) == Integers{2});

  Tensor leaf = tensor({2, 1, 2}).set_requires_grad();
  CHECK(values(grad({sum(unique(leaf).values)}, {leaf})[0]) == Doubles{1, 1, 0});
}

TEST_CASE("unique: values, inverse and counts of many elements fit together") {
  Generator generator(3);
  const Tensor x = randint(0, 300, {40, 50}, generator);
  const auto [elements, inverse, counts] = unique(x);
  const Integers of = integers(elements), at = integers(inverse), number = integers(counts), all = integers(x);
  Integers found(of.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(of[static_cast<size_t>(at[i])] == all[i]);
    ++found[static_cast<size_t>(at[i])];
  }
  CHECK(found == number);
}

TEST_CASE("bincount") {
  const Tensor x = tensor({3, 0, 3}, DType::int64);
  CHECK(integers(bincount(x)) == Integers{1, 0, 0, 2});
  CHECK(bincount(x).dtype() == DType::int64);
  CHECK(integers(bincount(x.to(DType::int32), {}, 6)) == Integers{1, 0, 0, 2, 0, 0});
  CHECK(integers(bincount(x, {}, 2)) == Integers{1, 0, 0, 2});
  CHECK(values(bincount(x, tensor({0.5, 1, 2}))) == Doubles{1, 0, 0, 2.5});
  CHECK(bincount(x, ones({3}, DType::float64)).dtype() == DType::float64);
  CHECK(integers(bincount(zeros({0}, DType::int64), {}, 2)) == Integers{0, 0});
  CHECK(bincount(zeros({0}, DType::int64)).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(bincount(tensor({1, -2}, DType::int64)),
                       doctest::Contains("bincount: x[1] is -2, outside [0, 2): dim 0 of counts[2]"), IndexError);
  CHECK_THROWS_WITH_AS(bincount(x, {}, -1), doctest::Contains("bincount: minlength is -1"), ValueError);
  CHECK_THROWS_WITH_AS(bincount(x.unsqueeze(0)), doctest::Contains("bincount: x[1, 3] has rank 2; flatten() it"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(bincount(x, ones({2})), doctest::Contains("bincount: weights[2] and x[3] must have one shape"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(bincount(ones({2})), doctest::Contains("bincount: x is float32"), DTypeError);
}

TEST_CASE("argsort: the indices of sort, NaN last, as in PyTorch") {
  const Tensor x = tensor({{3, 1, 2}, {0, NAN, -1}});
  CHECK(argsort(x).to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0, 2, 0, 1});
  const Tensor y = tensor({{3, 1, 2}, {0, 5, -1}});
  CHECK(argsort(y, 0, true).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 0, 1, 0, 1});
  CHECK(argsort(tensor({2, 1, 2, 1}, {4}, DType::int32)).to_vector<int64_t>() == std::vector<int64_t>{1, 3, 0, 2});
  CHECK(argsort(scalar(5)).item<int64_t>() == 0);
  CHECK_THROWS_WITH_AS(argsort(x, 2, false, {"a.cpp", 7}),
                       "argsort: dim 2 does not exist: the tensor has rank 2, so dims run from -2 to 1 (a.cpp:7)",
                       ShapeError);
}

TEST_CASE("topk of one number, and index_put where a mask has no dim, say what is wrong") {
  CHECK(topk(scalar(7), 1).values.item() == 7);
  CHECK_THROWS_WITH_AS(topk(scalar(7), 0), doctest::Contains("k is 0; x[] has 1 element"), ValueError);
  const Tensor x = zeros({3}), index = tensor({1}, DType::int64), v = ones({1});
  for (const Tensor& mask : {scalar(0, DType::boolean), scalar(1, DType::boolean)}) {
    CHECK_THROWS_WITH_AS(index_put(x, {index, mask}, v), doctest::Contains("a mask of rank 0"), ShapeError);
    CHECK_THROWS_WITH_AS(index_put(x, std::vector{mask}, v), doctest::Contains("a mask of rank 0"), ShapeError);
  }
}
