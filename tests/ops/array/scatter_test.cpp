#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using test::Doubles;
using test::kNan;
using test::uniform;
using test::values;

namespace {

Tensor ids(const std::vector<int64_t>& list, const Shape& shape = {-1}) { return tensor(list, shape); }

/// 0, 1, 2, … in a shape.
Tensor counted(const Shape& shape) { return arange(shape.numel(), DType::float32).reshape(shape); }

}  // namespace

TEST_CASE("scatter: the last of equal indices counts") {
  const Tensor x = ones({2, 3}), src = add(counted({2, 3}), 4);
  CHECK(values(scatter(x, 1, ids({2, 0, 0, 1}, {2, 2}), src)) == Doubles{5, 1, 4, 7, 8, 1});
  CHECK(values(scatter(x, 0, ids({1, 0, 1}, {1, 3}), src)) == Doubles{1, 5, 1, 4, 1, 6});
  CHECK(values(scatter(x, 1, ids({0, 0, 0, 2, 2, 2}, {2, 3}), src)) == Doubles{6, 1, 1, 1, 1, 9});
  CHECK(values(scatter(x, -1, ids({0, 0, 1}, {1, 3}), 0)) == Doubles{0, 0, 1, 1, 1, 1});
  CHECK(values(scatter(x.t(), 0, ids({2}, {1, 1}), 7).t()) == Doubles{1, 1, 7, 1, 1, 1});
  CHECK(values(scatter(zeros({2, 3}, DType::boolean), 1, ids({1, 2}, {2, 1}), true)) == Doubles{0, 1, 0, 0, 0, 1});
  CHECK(values(x) == Doubles{1, 1, 1, 1, 1, 1});
  const Tensor odd = scatter(tensor({kNan, 1}), 0, ids({0}), tensor({-0.0}));
  CHECK(std::signbit(values(odd)[0]));

  CHECK_THROWS_WITH_AS(scatter(x, 1, ids({0, 3}, {1, 2}), src),
                       doctest::Contains("scatter: index[0, 1] is 3, outside [0, 3): dim 1 of x[2, 3]"), IndexError);
  CHECK_THROWS_WITH_AS(scatter(x, 1, ids({0, 0}, {1, 2}), zeros({1, 1})),
                       doctest::Contains("scatter: index[1, 2] is larger than src[1, 1] in dim 1 (2 > 1)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(scatter(x, 0, ids({0, 0, 0}, {3, 1}), src),
                       doctest::Contains("scatter: index[3, 1] is larger than src[2, 3] in dim 0"), ShapeError);
  CHECK_THROWS_WITH_AS(scatter(x, 1, ids({0}), src),
                       doctest::Contains("scatter: index[1] and x[2, 3] differ in rank (1 ≠ 2)"), ShapeError);
  CHECK_THROWS_WITH_AS(scatter(x, 1, ids({0}, {1, 1}), src.to(DType::float64)),
                       doctest::Contains("scatter: x is float32 and src float64"), DTypeError);
  CHECK_THROWS_AS(scatter(ids({1, 2}), 0, ids({0}), 0.5), DTypeError);
}

TEST_CASE("scatter and scatter_add are the same for any number of threads") {
  Generator generator(16);
  const Tensor x = randn({50, 300}, generator).set_requires_grad();
  const Tensor src = randn({400, 300}, generator).set_requires_grad();
  const Tensor index = randint(0, 50, {400, 300}, generator);
  check_threads_change_no_bit([&] {
    const Tensor y = scatter(x, 0, index, src), z = scatter_add(x, 0, index, src);
    std::vector<Tensor> results = grad({sum(y * z)}, {x, src});
    results.insert(results.end(), {y.detach(), z.detach()});
    return results;
  });
}

TEST_CASE("scatter, scatter_add and gather's gradient of more columns than one task has, each with its own index") {
  const int64_t rows = 5, src_rows = 9, columns = 150;  // a task has 64 columns
  const Tensor x = uniform({rows, columns}, 1), src = uniform({src_rows, columns}, 2);
  Generator generator(3);
  const Tensor contiguous = randint(0, rows, {src_rows, columns}, generator);
  for (const Tensor& index : {contiguous, contiguous.t().contiguous().t()}) {
    Doubles set = values(x), added = set, gradient(set.size());
    for (int64_t i = 0; i < src_rows; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        const auto to = static_cast<size_t>(index[{i, c}].item<int64_t>() * columns + c);
        const double from = src[{i, c}].item<double>();
        set[to] = from;
        added[to] += from;
        gradient[to] += from;
      }
    }
    CHECK(values(scatter(x, 0, index, src)) == set);
    CHECK(values(scatter_add(x, 0, index, src)) == added);
    const Tensor leaf = x.detach().set_requires_grad();
    CHECK(values(grad({gather(leaf, 0, index)}, {leaf}, {.grad_outputs = {src}})[0]) == gradient);
  }
}
