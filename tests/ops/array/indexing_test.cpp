#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>

#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using test::Doubles;
using test::kInfinity;
using test::kNan;
using test::values;

namespace {

using Integers = std::vector<int64_t>;

Integers integers(const Tensor& x) { return x.to_vector<int64_t>(); }
Tensor ids(const Integers& list, const Shape& shape = {-1}) { return tensor(list, shape); }

/// 0, 1, 2, … in a shape.
Tensor counted(const Shape& shape) { return arange(shape.numel(), DType::float32).reshape(shape); }

}  // namespace

TEST_CASE("embedding") {
  const Tensor weight = counted({4, 2});
  CHECK(values(embedding(weight, ids({3, 0, 3}))) == Doubles{6, 7, 0, 1, 6, 7});
  CHECK(embedding(weight, ids({1, 2}, {1, 2}).to(DType::int32)).shape() == Shape{1, 2, 2});
  CHECK(embedding(weight, zeros({0}, DType::int64)).shape() == Shape{0, 2});
  CHECK_THROWS_WITH_AS(embedding(weight, ids({0, 1, 2, 4}, {2, 2})),
                       doctest::Contains("embedding: ids[1, 1] is 4, outside [0, 4): dim 0 of weight[4, 2]"),
                       IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, ids({-1})), doctest::Contains("ids[0] is -1, outside [0, 4)"), IndexError);
  CHECK_THROWS_WITH_AS(embedding(weight, ones({2})), doctest::Contains("ids is float32; indices are int64 or int32"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(embedding(counted({4}), ids({0})), doctest::Contains("weight[4] has rank 1; [V, D] is needed"),
                       ShapeError);
}

TEST_CASE("embedding's gradient is the same for any number of threads") {
  Generator generator(5);
  const Tensor weight = randn({17, 200}, generator).set_requires_grad();
  const Tensor which = randint(0, 17, {40, 50}, generator);
  const Tensor cotangent = randn({40, 50, 200}, generator);
  const auto gradient = [&] { return grad({embedding(weight, which)}, {weight}, {.grad_outputs = {cotangent}}); };
  check_threads_change_no_bit(gradient);

  const Doubles sums = values(gradient()[0]), g = values(cotangent);
  Doubles expected(17 * 200);
  const Integers rows = integers(which);
  for (size_t i = 0; i < g.size(); ++i) expected[static_cast<size_t>(rows[i / 200]) * 200 + i % 200] += g[i];
  for (size_t i = 0; i < expected.size(); ++i) CHECK(sums[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE("an index that is edited before backward is caught") {
  Tensor index = ids({0, 1});
  const Tensor x = counted({3}).set_requires_grad();
  const Tensor y = sum(index_select(x, 0, index));
  index.fill_(2);
  CHECK_THROWS_AS(backward(y), AutogradError);
}

TEST_CASE("index_select") {
  const Tensor x = counted({2, 3});
  CHECK(values(index_select(x, 0, ids({1, 1}))) == Doubles{3, 4, 5, 3, 4, 5});
  CHECK(values(index_select(x, -1, ids({2, 0}))) == Doubles{2, 0, 5, 3});
  CHECK(values(index_select(x.transpose(0, 1), 0, ids({2, 0}))) == Doubles{2, 5, 0, 3});
  CHECK(integers(index_select(ids({4, 5, 6}), 0, ids({2}))) == Integers{6});
  CHECK(values(index_select(x, 1, ids({2, 9, 0}).slice(0, 0, 3, 2))) == Doubles{2, 0, 5, 3});
  CHECK_THROWS_WITH_AS(index_select(x, 1, ids({0, 3})),
                       doctest::Contains("index_select: index[1] is 3, outside [0, 3): dim 1 of x[2, 3]"),
                       IndexError);
  CHECK_THROWS_AS(index_select(x, 1, ids({0, 1}, {1, 2})), ShapeError);
}

TEST_CASE("gather and scatter_add") {
  const Tensor x = counted({3, 4});
  CHECK(values(gather(x, 1, ids({3, 0, 1, 1}, {2, 2}))) == Doubles{3, 0, 5, 5});
  CHECK(values(gather(x, 0, ids({2, 1, 0}, {1, 3}))) == Doubles{8, 5, 2});
  CHECK(values(gather(x.transpose(0, 1), 0, ids({3, 1}, {1, 2}))) == Doubles{3, 5});
  CHECK(values(scatter_add(zeros({2, 3}), 1, ids({2, 2, 0, 1}, {2, 2}), counted({2, 2}))) ==
        Doubles{0, 0, 1, 2, 3, 0});
  CHECK(values(scatter_add(ones({3, 2}), 0, ids({2, 0, 2, 0}, {2, 2}), counted({2, 2}))) ==
        Doubles{1, 5, 1, 1, 3, 1});
  CHECK_THROWS_WITH_AS(gather(x, 1, ids({0, 4}, {1, 2})),
                       doctest::Contains("gather: index[0, 1] is 4, outside [0, 4): dim 1 of x[3, 4]"), IndexError);
  CHECK_THROWS_WITH_AS(gather(x, 1, ids({0, 0, 0, 0}, {4, 1})),
                       doctest::Contains("gather: index[4, 1] is larger than x[3, 4] in dim 0 (4 > 3)"), ShapeError);
  CHECK_THROWS_WITH_AS(gather(x, 1, ids({0})),
                       doctest::Contains("gather: index[1] and x[3, 4] differ in rank (1 ≠ 2)"), ShapeError);
  CHECK_THROWS_WITH_AS(scatter_add(x, 1, ids({0, 0}, {1, 2}), zeros({1, 1})),
                       doctest::Contains("scatter_add: index[1, 2] is larger than src[1, 1] in dim 1 (2 > 1)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(scatter_add(x, 1, ids({0}, {1, 1}), zeros({1, 1}, DType::float64)),
                       doctest::Contains("scatter_add: x is float32 and src float64"), DTypeError);
}

TEST_CASE("take_along_dim") {
  const Tensor x = counted({2, 3});
  CHECK(values(take_along_dim(x, ids({2, 0}, {2, 1}), 1)) == Doubles{2, 3});
  CHECK(values(take_along_dim(x, ids({2, 0}, {1, 2}), -1)) == Doubles{2, 0, 5, 3});
  CHECK(values(take_along_dim(x.t(), ids({1}, {1, 1}), 1)) == Doubles{3, 4, 5});
  CHECK(values(take_along_dim(x, ids({5, 0}))) == Doubles{5, 0});
  CHECK(values(take_along_dim(x, sort(x, 1, true).indices, 1)) == Doubles{2, 1, 0, 5, 4, 3});
  CHECK_THROWS_WITH_AS(take_along_dim(x, ids({0}), 1),
                       doctest::Contains("take_along_dim: indices[1] and x[2, 3] differ in rank (1 ≠ 2); without dim "
                                         "both are flattened"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(take_along_dim(x, ids({0, 3}, {2, 1}), 1),
                       doctest::Contains("take_along_dim: index[1, 0] is 3, outside [0, 3): dim 1 of x[2, 3]"),
                       IndexError);
  CHECK_THROWS_WITH_AS(take_along_dim(x, zeros({3, 1}, DType::int64), 1), doctest::Contains("do not broadcast"),
                       ShapeError);
}

TEST_CASE("index_put") {
  const Tensor x = zeros({2, 3}), v = tensor({5, 6});
  CHECK(values(index_put(x, {ids({1, 0}), ids({2, 1})}, v)) == Doubles{0, 6, 0, 0, 0, 5});
  CHECK(values(index_put(x, {ids({0, 1}, {2, 1}), ids({0, 2})}, v)) == Doubles{5, 0, 6, 5, 0, 6});
  CHECK(values(index_put(x, {ids({1})}, tensor({1, 2, 3}))) == Doubles{0, 0, 0, 1, 2, 3});
  CHECK(values(index_put(x, {ids({1, 1}), ids({0, 0})}, v)) == Doubles{0, 0, 0, 6, 0, 0});
  CHECK(values(index_put(ones({2, 3}), {ids({1, 1}), ids({0, 0})}, v, true)) == Doubles{1, 1, 1, 12, 1, 1});
  CHECK(values(index_put(x.t(), {ids({2})}, v).t()) == Doubles{0, 0, 5, 0, 0, 6});
  CHECK(values(index_put(x, {scalar(1, DType::int32)}, scalar(4))) == Doubles{0, 0, 0, 4, 4, 4});
  const Tensor mask = tensor({1, 0, 1, 0, 0, 0}, {2, 3}, DType::boolean);
  CHECK(values(index_put(x, {mask}, v)) == Doubles{5, 0, 6, 0, 0, 0});
  CHECK(values(index_put(x, {mask.select(1, 0), ids({1})}, scalar(9), true)) == Doubles{0, 9, 0, 0, 0, 0});
  CHECK(values(index_put(ids({1, 2, 3}), {ids({1})}, scalar(7, DType::int64))) == Doubles{1, 7, 3});
  CHECK(values(index_put(mask, {ids({1})}, scalar(1, DType::boolean))) == Doubles{1, 0, 1, 1, 1, 1});
  CHECK(index_put(zeros({0, 3}), {ids({})}, scalar(1)).shape() == Shape{0, 3});
  CHECK(values(x) == Doubles{0, 0, 0, 0, 0, 0});

  CHECK_THROWS_WITH_AS(index_put(x, {ids({0}), ids({3})}, v),
                       doctest::Contains("index_put: index[0] is 3, outside [0, 3): dim 1 of x[2, 3]"), IndexError);
  CHECK_THROWS_WITH_AS(index_put(x, {ids({-1})}, v), doctest::Contains("index[0] is -1, outside [0, 2)"), IndexError);
  CHECK_THROWS_WITH_AS(index_put(x, {}, v), doctest::Contains("index_put: no indices were given"), ValueError);
  CHECK_THROWS_WITH_AS(index_put(x, {ids({0}), ids({0}), ids({0})}, v),
                       doctest::Contains("index_put: the indices are for 3 dims; x[2, 3] has 2"), ShapeError);
  CHECK_THROWS_WITH_AS(index_put(x, {mask.t()}, v),
                       doctest::Contains("index_put: a mask[3, 2] stands for dims of shape [2, 3] of x[2, 3]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(index_put(x, {ids({0, 1}), ids({0, 1, 2})}, v), doctest::Contains("do not broadcast"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(index_put(x, {ids({0})}, v),
                       doctest::Contains("index_put: a tensor of shape [2] does not expand to [1, 3]"), ShapeError);
  CHECK_THROWS_WITH_AS(index_put(x, {ids({0})}, v.to(DType::float64)),
                       doctest::Contains("index_put: x is float32 and values float64"), DTypeError);
  CHECK_THROWS_WITH_AS(index_put(x, {v}, v), doctest::Contains("index is float32; indices are int64 or int32"),
                       DTypeError);
}

TEST_CASE("diag and trace") {
  const Tensor x = counted({2, 3});
  CHECK(values(diag(tensor({1, 2}))) == Doubles{1, 0, 0, 2});
  CHECK(values(diag(tensor({1, 2}), 1)) == Doubles{0, 1, 0, 0, 0, 2, 0, 0, 0});
  CHECK(values(diag(tensor({1, 2}), -1)) == Doubles{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK(values(diag(tensor({kInfinity, 2}))) == Doubles{kInfinity, 0, 0, 2});
  CHECK(diag(zeros({0}), -2).shape() == Shape{2, 2});
  CHECK(values(diag(x)) == Doubles{0, 4});
  CHECK(values(diag(x, -1)) == Doubles{3});
  CHECK(diag(x, 3).shape() == Shape{0});
  Tensor copy = diag(x);
  copy.fill_(9);
  CHECK(values(x) == values(counted({2, 3})));
  CHECK(trace(x).item() == 4);
  CHECK(trace(ids({1, 2, 3, 4}, {2, 2})).item<int64_t>() == 5);
  CHECK(trace(zeros({0, 2})).item() == 0);
  CHECK_THROWS_WITH_AS(diag(zeros({1, 2, 2})), doctest::Contains("diag: x[1, 2, 2] has rank 3; 1 or 2 is needed"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(trace(zeros({2})), doctest::Contains("trace: x[2] has rank 1; 2 is needed"), ShapeError);
}

TEST_CASE("one_hot, tril, triu") {
  CHECK(integers(one_hot(ids({2, 0}), 3)) == Integers{0, 0, 1, 1, 0, 0});
  CHECK(one_hot(ids({1, 1, 0, 0}, {2, 2}), 2, DType::float32).shape() == Shape{2, 2, 2});
  CHECK_THROWS_WITH_AS(one_hot(ids({0, 3}), 3), doctest::Contains("one_hot: ids[1] is 3, outside [0, 3)"),
                       IndexError);
  CHECK_THROWS_AS(one_hot(ids({0}), 0), ValueError);

  const Tensor x = add(counted({2, 3}), 1);
  CHECK(values(tril(x)) == Doubles{1, 0, 0, 4, 5, 0});
  CHECK(values(tril(x, 1)) == Doubles{1, 2, 0, 4, 5, 6});
  CHECK(values(triu(x)) == Doubles{1, 2, 3, 0, 5, 6});
  CHECK(values(triu(x, -1)) == Doubles{1, 2, 3, 4, 5, 6});
  CHECK(tril(ones({2, 2}, DType::boolean)).to_vector<bool>() == std::vector<bool>{true, false, true, true});
  CHECK(values(triu(full({2, 2}, -kInfinity), 1)) == Doubles{0, -kInfinity, 0, 0});
  CHECK_THROWS_WITH_AS(tril(ones({3})), doctest::Contains("tril: x[3] has rank 1; at least 2 is needed"), ShapeError);
}

TEST_CASE("concat, stack, pad") {
  const Tensor a = counted({2, 2}), b = full({2, 1}, 9);
  CHECK(values(concat({a, b}, 1)) == Doubles{0, 1, 9, 2, 3, 9});
  CHECK(values(concat({a.transpose(0, 1), a})) == Doubles{0, 2, 1, 3, 0, 1, 2, 3});
  CHECK(concat({zeros({0, 2}), a}).shape() == Shape{2, 2});
  CHECK(values(stack({tensor({1, 2}), tensor({3, 4})}, -1)) == Doubles{1, 3, 2, 4});
  CHECK(stack({scalar(1), scalar(2)}).shape() == Shape{2});
  CHECK(values(pad(a, {1, 0})) == Doubles{0, 0, 1, 0, 2, 3});
  CHECK(values(pad(a, {0, 1, 1, 0}, -1)) == Doubles{-1, -1, -1, 0, 1, -1, 2, 3, -1});
  CHECK(integers(pad(ids({7}), {1, 1}, 5)) == Integers{5, 7, 5});

  CHECK_THROWS_WITH_AS(concat({a, b}),
                       doctest::Contains("concat: tensor 0 is [2, 2], tensor 1 is [2, 1]: they differ in another dim "
                                         "than 0"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(stack({a, b}), doctest::Contains("stack: tensor 0 is [2, 2], tensor 1 is [2, 1]"), ShapeError);
  CHECK_THROWS_WITH_AS(concat({scalar(1)}), doctest::Contains("use stack"), ShapeError);
  CHECK_THROWS_WITH_AS(concat({}), doctest::Contains("concat: no tensors were given"), ValueError);
  CHECK_THROWS_AS(concat({a, a.to(DType::float64)}), DTypeError);
  CHECK_THROWS_WITH_AS(pad(a, {1}), doctest::Contains("pad: 1 widths for x[2, 2]; two a dim are needed"), ValueError);
  CHECK_THROWS_WITH_AS(pad(a, {0, -1}), doctest::Contains("pad: widths [0, -1] contain -1; use narrow"), ValueError);
}

TEST_CASE("sort and topk") {
  const Tensor x = tensor({3, 1, 2, 1, 5, 1}, {2, 3});
  const ValuesAndIndices rows = sort(x);
  CHECK(values(rows.values) == Doubles{1, 2, 3, 1, 1, 5});
  CHECK(integers(rows.indices) == Integers{1, 2, 0, 0, 2, 1});
  CHECK(integers(sort(x, 1, true).indices) == Integers{0, 2, 1, 1, 0, 2});
  CHECK(values(sort(x, 0).values) == Doubles{1, 1, 1, 3, 5, 2});
  CHECK(integers(sort(x, 0).indices) == Integers{1, 0, 1, 0, 1, 0});

  const Tensor odd = tensor({kNan, 1, kInfinity, -kInfinity});
  CHECK(integers(sort(odd).indices) == Integers{3, 1, 2, 0});
  CHECK(integers(sort(odd, 0, true).indices) == Integers{0, 2, 1, 3});
  CHECK(sort(tensor({1, 0, 1}, DType::boolean)).indices.to_vector<int64_t>() == Integers{1, 0, 2});

  CHECK(values(topk(x, 2).values) == Doubles{3, 2, 5, 1});
  CHECK(integers(topk(x, 1, 0, false).indices) == Integers{1, 0, 1});
  CHECK(integers(topk(x.to(DType::int32), 1, 0).values) == Integers{3, 5, 2});
  CHECK(topk(x, 0).values.shape() == Shape{2, 0});
  const ValuesAndIndices only = topk(scalar(4), 1);
  CHECK((only.values.rank() == 0 && only.values.item<float>() == 4));
  CHECK((only.indices.rank() == 0 && only.indices.item<int64_t>() == 0));
  CHECK_THROWS_WITH_AS(topk(scalar(4), 2), doctest::Contains("topk: k is 2"), ValueError);
  CHECK_THROWS_WITH_AS(topk(x, 4), doctest::Contains("topk: k is 4; dim -1 of x[2, 3] has 3 elements"), ValueError);
}

TEST_CASE("sort is stable on long rows, of integers close together and far apart") {
  Generator generator(6);
  const Tensor close = randint(-5, 5, {20000}, generator);
  for (const Tensor& x : {close, close * 1'000'000}) {
    for (const bool descending : {false, true}) {
      const Integers order = integers(sort(x, 0, descending).indices), v = integers(x);
      int64_t wrong = 0;
      for (size_t i = 1; i < order.size(); ++i) {
        const int64_t a = v[static_cast<size_t>(order[i - 1])], b = v[static_cast<size_t>(order[i])];
        wrong += a == b ? order[i - 1] > order[i] : (a > b) != descending;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("topk is the start of sort, ties and NaN included") {
  Generator generator(9);
  Tensor x = randint(0, 50, {3, 1000, 2}, generator).to(DType::float64);
  x.narrow(1, 500, 3).fill_(kNan);
  const auto comparable = [](const Tensor& v) { return masked_fill(v, ne(v, v), -1); };
  for (const bool largest : {false, true}) {
    const ValuesAndIndices all = sort(x, 1, largest);
    for (const int64_t k : {0, 1, 2, 40, 999, 1000}) {
      CAPTURE(k);
      const ValuesAndIndices best = topk(x, k, 1, largest);
      CHECK(best.values.shape() == Shape{3, k, 2});
      CHECK(best.values.is_contiguous());
      CHECK(integers(best.indices) == integers(all.indices.narrow(1, 0, k)));
      CHECK(values(comparable(best.values)) == values(comparable(all.values.narrow(1, 0, k))));
    }
  }
}

TEST_CASE("searchsorted") {
  const Tensor sequence = tensor({1, 2, 2, 5, 7});
  const Tensor wanted = tensor({0, 1, 2, 3, 5, 7, 8, kNan, kInfinity, -kInfinity}, {2, 5});
  CHECK(integers(searchsorted(sequence, wanted)) == Integers{0, 0, 1, 3, 3, 4, 5, 5, 5, 0});
  CHECK(integers(searchsorted(sequence, wanted, true)) == Integers{0, 1, 3, 3, 4, 5, 5, 5, 5, 0});
  CHECK(searchsorted(sequence, wanted).shape() == Shape{2, 5});
  CHECK(searchsorted(sequence, scalar(6)).item<int64_t>() == 4);
  CHECK(integers(searchsorted(zeros({0}), tensor({1, 2}))) == Integers{0, 0});
  CHECK(searchsorted(sequence, zeros({3, 0})).shape() == Shape{3, 0});
  CHECK(integers(searchsorted(ids({1, 2, 3, 4}, {2, 2}), ids({2, 3, 4, 5}, {2, 2}), true)) == Integers{2, 2, 2, 2});
  CHECK(integers(searchsorted(ids({1, 3, 2, 4}, {2, 2}).t(), ids({3, 1}, {2, 1}))) == Integers{2, 0});
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 1000}) {
    const Tensor each = arange(n);
    CHECK(integers(searchsorted(each, each)) == integers(each));
    CHECK(integers(searchsorted(each, each, true)) == integers(each + 1));
  }
  CHECK_THROWS_WITH_AS(searchsorted(scalar(1), sequence), doctest::Contains("the sorted sequence has rank 0"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      searchsorted(zeros({2, 3}), zeros({3, 2})),
      doctest::Contains("searchsorted: sorted_sequence[2, 3] and values[3, 2] differ in another dim"), ShapeError);
  CHECK_THROWS_AS(searchsorted(zeros({2, 3}), scalar(1)), ShapeError);
  CHECK_THROWS_WITH_AS(searchsorted(sequence, ids({1})), doctest::Contains("searchsorted: dtypes differ"),
                       DTypeError);
}

TEST_CASE("multinomial draws with the given probabilities") {
  Generator generator(7);
  const Tensor p = tensor({1, 0, 3, 4}, {1, 4}).expand({2, 4});
  const int64_t n = 20000;
  const Tensor draws = multinomial(p, n, generator, true);
  CHECK(draws.shape() == Shape{2, n});
  const Doubles rates = values(mean(one_hot(draws, 4, DType::float64), {0, 1}));
  CHECK(rates[1] == 0);
  // Five standard deviations of a frequency over 40,000 draws are 0.0125 at most.
  CHECK(std::abs(rates[0] - 0.125) < 0.0125);
  CHECK(std::abs(rates[2] - 0.375) < 0.0125);
  CHECK(std::abs(rates[3] - 0.5) < 0.0125);
}

TEST_CASE("multinomial without replacement") {
  Generator generator(8);
  const int64_t n = 20000;
  const Tensor p = tensor({1, 0, 3, 4}, {1, 4}).expand({n, 4});
  const Tensor draws = multinomial(p, 3, generator);
  const Doubles counts = values(sum(one_hot(draws, 4, DType::float64), {0, 1}));
  CHECK(counts == Doubles{double(n), 0, double(n), double(n)});
  const Doubles first = values(mean(one_hot(draws.select(1, 0), 4, DType::float64), {0}));
  const Doubles second = values(mean(one_hot(draws.select(1, 1), 4, DType::float64), {0}));
  // P(second is 0) = 3/8 · 1/5 + 4/8 · 1/4. Five standard deviations over 20,000 draws are 0.0177 at most.
  CHECK(std::abs(first[0] - 0.125) < 0.0177);
  CHECK(std::abs(first[3] - 0.5) < 0.0177);
  CHECK(std::abs(second[0] - 0.2) < 0.0177);

  Generator a(9), b(9);
  CHECK(integers(multinomial(p.narrow(0, 0, 5), 2, a)) == integers(multinomial(p.narrow(0, 0, 5), 2, b)));
}

TEST_CASE("multinomial: bad probabilities") {
  Generator generator(10);
  CHECK_THROWS_WITH_AS(multinomial(tensor({1, 1, 1, -0.5}, {2, 2}), 1, generator),
                       doctest::Contains("multinomial: probabilities[1, 1] is -0.5"), ValueError);
  CHECK_THROWS_WITH_AS(multinomial(tensor({1, kNan}), 1, generator), doctest::Contains("probabilities[1] is nan"),
                       ValueError);
  CHECK_THROWS_WITH_AS(multinomial(tensor({1, kInfinity}), 1, generator),
                       doctest::Contains("probabilities[1] is inf"), ValueError);
  CHECK_THROWS_WITH_AS(multinomial(zeros({3}), 1, generator, true),
                       doctest::Contains("row [] of probabilities[3] has 0 positive entries; 1 are needed"),
                       ValueError);
  CHECK_THROWS_WITH_AS(multinomial(tensor({1, 1, 0, 2, 0, 0}, {2, 3}), 2, generator),
                       doctest::Contains("row [1] of probabilities[2, 3] has 1 positive entries; 2 are needed for 2 "
                                         "samples without replacement"),
                       ValueError);
  CHECK_THROWS_AS(multinomial(ones({3}), 0, generator), ValueError);
  CHECK_THROWS_WITH_AS(multinomial(scalar(1), 1, generator), doctest::Contains("probabilities have rank 0; [..., C]"),
                       ShapeError);
  CHECK_THROWS_AS(multinomial(ids({1, 2}), 1, generator), DTypeError);
}
