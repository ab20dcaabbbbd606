#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/gradient_check.h"
#include "tests/support/values.h"

/// Gradients of parts of an input, returned by a user's own op. Those of views are in tape_test.cpp.

namespace linnet::test {
namespace {

using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.to_vector<double>(); }

/// x³ for the indices start, start + step, … below stop of a dim, as one op.
Tensor cube_part(const Tensor& x, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  Op op("cube_part", Where{}, {x});
  Tensor cubes;
  {
    const NoGrad no_grad;
    cubes = pow(x.slice(dim, start, stop, step), 3);
  }
  return op.record(cubes, [=, x = op.save(x)](const Tensor& g) {
    return Grads{PartialGrad{3 * g * square(x().slice(dim, start, stop, step)), dim, start, step}};
  });
}

/// An op with the result 1. Each of the given gradients belongs to an input, and all inputs are `x`.
Tensor with_gradients(const Tensor& x, const Grads& gradients) {
  Op op("with_gradients", Where{}, std::vector<Tensor>(gradients.size(), x));
  return op.record(ones({}, x.dtype()), [gradients](const Tensor&) { return gradients; });
}

/// A [2, 6] gradient of integers, for all of x or for a part of it, and the same padded with zeros to all of x.
struct Given {
  const char* name;
  Grad gradient;
  Values whole;
};

std::vector<Given> gradients_of_all_kinds() {
  const auto numbers = [](int64_t columns, double first) {
    return (arange(2 * columns, DType::float64) + first).reshape({2, columns});
  };
  return {{"columns 0 and 1", PartialGrad{numbers(2, 1), 1, 0}, {1, 2, 0, 0, 0, 0, 3, 4, 0, 0, 0, 0}},
          {"columns 2 to 5", PartialGrad{numbers(4, 10), 1, 2}, {0, 0, 10, 11, 12, 13, 0, 0, 14, 15, 16, 17}},
          {"columns 1 and 2, counted from the end",
           PartialGrad{numbers(2, 20), -1, 1},
           {0, 20, 21, 0, 0, 0, 0, 22, 23, 0, 0, 0}},
          {"columns 1, 3 and 5", PartialGrad{numbers(3, 30), 1, 1, 2}, {0, 30, 0, 31, 0, 32, 0, 33, 0, 34, 0, 35}},
          {"columns 0 and 3", PartialGrad{numbers(2, 70), 1, 0, 3}, {70, 0, 0, 71, 0, 0, 72, 0, 0, 73, 0, 0}},
          {"no column", PartialGrad{numbers(0, 0), 1, 6}, Values(12, 0)},
          {"row 0", PartialGrad{numbers(3, 40).reshape({1, 6})}, {40, 41, 42, 43, 44, 45, 0, 0, 0, 0, 0, 0}},
          {"all", numbers(6, 50), {50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61}},
          {"all, of a broadcast shape", ones({3, 2, 6}, DType::float64), Values(12, 3)}};
}

Tensor zeros_leaf() { return zeros({2, 6}, DType::float64).set_requires_grad(); }

}  // namespace

TEST_CASE("partial gradients: an op of a user's own has first, second and third derivatives") {
  const Tensor x = uniform({3, 7}, 1);
  for (const int64_t dim : {0, 1, -1}) {
    for (const int64_t step : {1, 2, 3}) {
      const Function f = [&](const std::vector<Tensor>& in) { return cube_part(in[0], dim, 1, 7, step); };
      CHECK_MESSAGE(check_gradients(f, {x}, {.twice = true}), "dim ", dim, ", step ", step);
    }
  }
  const Tensor y = tensor({2, 3, 4, 5}, DType::float64).set_requires_grad();
  Tensor derivative = cube_part(y, 0, 1, 4, 2);
  for (const Values& expected : {Values{0, 27, 0, 75}, Values{0, 18, 0, 30}, Values{0, 6, 0, 6}}) {
    derivative = grad({sum(derivative)}, {y}, {.create_graph = true})[0];
    CHECK(values_of(derivative) == expected);
  }
}

TEST_CASE("partial gradients: parts that overlap, leave gaps or have a step add up with whole ones, in any order") {
  const std::vector<Given> all = gradients_of_all_kinds();
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < all.size(); ++b) {
      for (size_t c = 0; c < all.size(); ++c) {
        for (const bool create_graph : {false, true}) {
          const Tensor x = zeros_leaf();
          const Grads gradients{all[a].gradient, all[b].gradient, all[c].gradient};
          const Tensor sum = grad({with_gradients(x, gradients)}, {x}, {.create_graph = create_graph})[0];
          Values expected(12);
          for (size_t i = 0; i < 12; ++i) expected[i] = all[a].whole[i] + all[b].whole[i] + all[c].whole[i];
          CHECK_MESSAGE(values_of(sum) == expected, all[a].name, "; ", all[b].name, "; ", all[c].name);
        }
      }
    }
  }
  // Nor does it edit the incoming gradients.
  for (const Given& given : all) {
    const Tensor x = zeros_leaf();
    CHECK(values_of(grad({with_gradients(x, {given.gradient})}, {x})[0]) == given.whole);
  }
  const std::vector<Given> again = gradients_of_all_kinds();
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(values_of(all[i].gradient.tensor()) == values_of(again[i].gradient.tensor()));
  }
}

TEST_CASE(
    "partial gradients: parts that follow each other need no memory but their sum's, or none where side by side") {
  const auto parts_of = [](const Tensor& made) {
    return Grads{PartialGrad{made.narrow(1, 0, 100), 1, 0}, PartialGrad{made.narrow(1, 100, 300), 1, 100}};
  };
  // Backward goes from a scalar to x. Its peak above the memory before is that of the sum.
  const auto memory_of_walk = [&](const Tensor& x, const Grads& gradients) {
    const Tensor loss = with_gradients(x, gradients);
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    const Tensor gradient = grad({loss}, {x})[0];
    return memory_stats().peak - before;
  };
  const Tensor x = zeros({100, 400}, DType::float64).set_requires_grad();
  const int64_t size = 100 * 400 * 8, little = 10000;
  const Tensor made = uniform({100, 400}, 1);
  CHECK(memory_of_walk(x, parts_of(made)) < little);
  const Tensor elsewhere = uniform({100, 500}, 1);
  const int64_t copied = memory_of_walk(x, parts_of(elsewhere));
  CHECK(copied >= size);
  CHECK(copied < size + little);

  const Tensor loss = with_gradients(x, parts_of(made));
  CHECK(detail::view(grad({loss}, {x})[0]).data == detail::view(made).data);
}

TEST_CASE("partial gradients: the sum of copied parts is nobody's memory but its own, and counts its edits") {
  const auto version_with = [](int overlapping) {
    Tensor x = zeros_leaf();
    const Tensor part = ones({2, 3}, DType::float64);
    Grads gradients{PartialGrad{part, 1, 0}, PartialGrad{part, 1, 3}};
    for (int i = 0; i < overlapping; ++i) gradients.push_back(PartialGrad{part, 1, 1});
    backward(with_gradients(x, gradients));
    const double most = 1 + overlapping;
    CHECK(values_of(x.grad()) == Values{1, most, most, most, 1, 1, 1, most, most, most, 1, 1});
    CHECK(values_of(part) == Values(6, 1));
    return detail::version(x.grad());
  };
  CHECK(version_with(1) > version_with(0));
  CHECK(version_with(2) > version_with(1));
}

TEST_CASE("partial gradients: hooks see the whole gradient, and a retained tape gives it again") {
  Tensor x = zeros_leaf();
  const Tensor inner = x * 1;
  std::vector<Values> seen;
  Tensor(inner).register_hook([&](const Tensor& g) { return seen.push_back(values_of(g)), g * 2; });
  const Tensor loss = with_gradients(inner, {PartialGrad{ones({1, 6}, DType::float64), 0, 1}});
  backward(loss, {.retain = true});
  backward(loss);
  const Values row{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  CHECK(seen == std::vector<Values>{row, row});
  CHECK(values_of(x.grad()) == Values{0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4});
}

TEST_CASE("partial gradients: an undefined one is none") {
  const Tensor x = zeros_leaf();
  CHECK_FALSE(grad({with_gradients(x, {PartialGrad{}})}, {x}, {.allow_unused = true})[0].defined());
}

TEST_CASE("partial gradients: one index, whatever the step") {
  const Tensor x = zeros_leaf();
  const int64_t step = std::numeric_limits<int64_t>::max();
  for (const bool create_graph : {false, true}) {
    const Grads gradients{PartialGrad{ones({1, 6}, DType::float64), 0, 1, step}};
    CHECK(values_of(grad({with_gradients(x, gradients)}, {x}, {.create_graph = create_graph})[0]) ==
          Values{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  }
}

TEST_CASE("partial gradients: one that does not fit is refused, with the op's name") {
  const auto returning = [](const PartialGrad& part, const Shape& shape = {2, 6}) {
    const Tensor x = zeros(shape, DType::float64).set_requires_grad();
    grad({with_gradients(x, {part})}, {x}, {.allow_unused = true});
  };
  const auto of = [](const Shape& shape, DType dtype = DType::float64) { return ones(shape, dtype); };
  const auto starts = [](const std::string& text) {
    return doctest::Contains(("backward of with_gradients: " + text).c_str());
  };
  const std::string partial = "the partial gradient of input 0 has ";

  CHECK_THROWS_WITH_AS(returning({of({3, 2}), 1}),
                       starts(partial + "shape [3, 2], which differs from the input's [2, 6] in more than dim 1"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(returning({of({2}), 1}), starts(partial + "shape [2], which differs"), ShapeError);
  CHECK_THROWS_WITH_AS(returning({of({1, 2, 6}), -1}), starts(partial + "shape [1, 2, 6], which differs"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(returning({of({2, 6}), 2}), starts("dim 2 does not exist"), ShapeError);
  CHECK_THROWS_WITH_AS(returning({of({})}, {}), starts("dim 0 does not exist: the tensor has rank 0"), ShapeError);
  CHECK_THROWS_WITH_AS(returning({of({2, 2}, DType::float32), 1}),
                       starts("the gradient of input 0 is float32, the input float64"), DTypeError);
  CHECK_THROWS_WITH_AS(
      returning({of({2, 2}), 1, 5}),
      starts(partial + "2 indices from 5 on with step 1, which leave dim 1 of [2, 6], which has size 6"), IndexError);
  for (const int64_t start :
       {int64_t{-1}, int64_t{6}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    for (const int64_t step : {1, 2}) {
      CHECK_THROWS_WITH_AS(returning({of({2, 1}), 1, start, step}), starts(partial + "1 indices from "), IndexError);
    }
  }
  CHECK_THROWS_WITH_AS(returning({of({2, 3}), 1, 0, 3}), starts(partial + "3 indices from 0 on with step 3"),
                       IndexError);
  CHECK_THROWS_WITH_AS(returning({of({2, 2}), 1, 1, std::numeric_limits<int64_t>::max()}),
                       starts(partial + "2 indices from 1 on"), IndexError);
  CHECK_THROWS_WITH_AS(returning({of({2, 0}), 1, 7}), starts(partial + "0 indices from 7 on"), IndexError);
  CHECK_THROWS_WITH_AS(returning({of({2, 2}), 1, 0, 0}), starts(partial + "step 0, which must be at least 1"),
                       ValueError);
  CHECK_NOTHROW(returning({of({2, 2}), 1, 4}));
  CHECK_NOTHROW(returning({of({2, 2}), 1, 0, 5}));
  CHECK_NOTHROW(returning({of({2, 0}), 1, 6}));

  const Tensor nan = of({2, 2}) * std::numeric_limits<double>::quiet_NaN();
  const AnomalyMode mode;
  CHECK_THROWS_WITH_AS(returning({nan, 1}), starts("produced a NaN (AnomalyMode), in the gradient of input 0"),
                       ValueError);
}

}  // namespace linnet::test
