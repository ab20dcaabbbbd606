/// The order in which reductions combine elements, for any layout and number of threads, and its accuracy.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/max_or_nan.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using test::Doubles;
using test::kInfinity;
using test::kNan;
using test::values;

namespace {

/// Combines the elements of contiguous x one by one, in the order of memory, each with its result.
template <class Join>
Doubles one_by_one(const Tensor& x, const Shape& dims, double start, const Join& join) {
  Shape strides = contiguous_strides(x.shape());  // strides of the result: 0 in reduced dims
  int64_t count = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    strides[d] = reduced ? 0 : count;
    if (!reduced) count *= x.size(d);
  }
  Doubles results(static_cast<size_t>(count), start);
  const Doubles elements = values(x);
  for (size_t i = 0; i < elements.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), place = 0;
    for (int d = x.rank() - 1; d >= 0; --d) {
      place += rest % x.size(d) * strides[d];
      rest /= x.size(d);
    }
    double& result = results[static_cast<size_t>(place)];
    result = join(result, elements[i]);
  }
  return results;
}

/// Whether they have the same bits, or are both NaN.
bool all_same(const Doubles& a, const Doubles& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Sums over dim `dim` of a rank-3 tensor, one by one in long double.
Doubles plain_sums(const Tensor& x, int dim) {
  const std::vector<double> elements = values(x);
  Shape kept = x.shape();
  kept.erase(dim);
  std::vector<long double> sums(static_cast<size_t>(kept.numel()));
  const int64_t inner = dim == 2 ? 1 : dim == 1 ? x.size(2) : x.size(1) * x.size(2);
  const int64_t n = x.size(dim);
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t flat = static_cast<int64_t>(i);
    sums[static_cast<size_t>(flat / (inner * n) * inner + flat % inner)] += elements[i];
  }
  return {sums.begin(), sums.end()};
}

}  // namespace

TEST_CASE("reductions: long and short ones, against plain sums") {
  Generator generator(2);
  for (const Shape& shape : {Shape{1, 1, 100003}, Shape{3, 70001, 2}, Shape{2, 300, 513}, Shape{70001, 1, 3},
                             Shape{1000, 7, 31}, Shape{5, 1, 33}}) {
    const Tensor x = randn(shape, generator, DType::float64);
    for (int dim = 0; dim < 3; ++dim) {
      const Doubles expected = plain_sums(x, dim);
      const Doubles actual = values(sum(x, {dim}));
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) worst = test::max_or_nan(worst, std::abs(actual[i] - expected[i]));
      CAPTURE(to_string(shape));
      CHECK(worst < 1e-10);
    }
  }
}

TEST_CASE("reductions of few elements join them in the order of memory, in every layout") {
  Generator generator(4);
  // Short inner, outer and middle dims; several reduced dims; more results than fit side by side.
  const std::vector<std::pair<Shape, Shape>> uses = {{{64, 6, 12, 2, 12, 2}, {3, 5}},
                                                     {{300, 2}, {1}},
                                                     {{700, 8}, {1}},
                                                     {{90, 3, 2}, {1, 2}},
                                                     {{90, 3, 2}, {1}},
                                                     {{90, 3, 2}, {2}},
                                                     {{40, 31}, {1}},
                                                     {{3, 5}, {1}},
                                                     {{2, 9, 2}, {0, 2}},
                                                     {{5, 1, 9, 2}, {3}},
                                                     {{2, 3, 2, 3, 2, 3}, {0, 2, 4}},
                                                     {{600, 4, 3, 2}, {2}},
                                                     {{2, 600, 2, 2}, {0, 3}},
                                                     {{8, 3, 500, 2}, {1, 3}}};
  for (const auto& [shape, dims] : uses) {
    CAPTURE(to_string(shape));
    CAPTURE(to_string(dims));
    const Tensor base = randn(shape, generator);
    Shape reversed;
    for (int d = shape.rank() - 1; d >= 0; --d) reversed.push_back(d);
    Shape reversed_dims;
    for (const int64_t dim : dims) reversed_dims.push_back(shape.rank() - 1 - dim);

    std::vector<float> elements = base.to_vector<float>();
    Shape kept = shape;
    for (const int64_t dim : dims) kept[static_cast<int>(dim)] = 1;
    const Strides strides = contiguous_strides(kept);
    std::vector<double> sums(static_cast<size_t>(kept.numel()));
    std::vector<float> largest(sums.size(), -std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < elements.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), place = 0;
      for (int d = shape.rank() - 1; d >= 0; rest /= shape[d--]) place += rest % shape[d] % kept[d] * strides[d];
      sums[static_cast<size_t>(place)] += elements[i];
      largest[static_cast<size_t>(place)] = std::max(largest[static_cast<size_t>(place)], elements[i]);
    }
    CHECK(sum(base, dims).to_vector<float>() == std::vector<float>(sums.begin(), sums.end()));
    CHECK(max(base, dims).to_vector<float>() == largest);
    CHECK(all(eq(max(base, dims), neg(min(neg(base), dims)))).item<bool>());
    CHECK(all(eq(any(gt(base, 2), dims), gt(max(base, dims), 2))).item<bool>());
    // A permuted tensor has its elements in the same order in memory.
    const Tensor permuted = sum(base.permute(reversed), reversed_dims, true).permute(reversed);
    CHECK(permuted.to_vector<float>() == std::vector<float>(sums.begin(), sums.end()));
  }
  const Tensor many = randn({64, 6, 12, 2, 12, 2}, generator);
  check_threads_change_no_bit([&] { return std::vector<Tensor>{sum(many, {3, 5}), max(many, {3, 5})}; });
}

TEST_CASE("sum of float32 is accurate to its last bits, over any dim") {
  const int64_t n = 3'000'000;
  const Tensor tenths = full({n, 2}, 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  CHECK(values(sum(tenths, {0})) == Doubles{static_cast<float>(exact), static_cast<float>(exact)});
  CHECK(sum(tenths).item<float>() == static_cast<float>(2 * exact));
  CHECK(sum(tenths.transpose(0, 1), {1}).select(0, 0).item<float>() == static_cast<float>(exact));
}

TEST_CASE("reductions of short rows, over any dims: in the order of memory") {
  Generator generator(5);
  const Shape shapes[] = {{9, 6, 2, 7, 2}, {200, 5},     {3, 70, 4},           {70, 31},
                          {20, 33, 3},     {5, 9, 1, 3}, {2, 3, 65, 2, 13, 2}, {4, 40, 3, 20}};
  for (const Shape& shape : shapes) {
    Tensor x = randn(shape, generator, DType::float64);
    x.reshape({x.numel()}).slice(0, 3, 7, 3).fill_(kNan);
    const Tensor whole = mul(masked_fill(x, ne(x, x), 0), 3).to(DType::int64), truth = gt(x, 1);
    const Tensor apart = concat({x, x}, -1).slice(-1, 0, x.size(-1));  // the rows of x with a larger stride
    for (int chosen = 1; chosen < 1 << shape.rank(); ++chosen) {
      Shape dims;
      for (int d = 0; d < shape.rank(); ++d) {
        if ((chosen >> d & 1) != 0) dims.push_back(d);
      }
      CAPTURE(to_string(shape));
      CAPTURE(to_string(dims));
      const auto plus = [](double a, double b) { return a + b; };
      const auto larger = [](double a, double b) { return b > a || std::isnan(b) ? b : a; };
      const auto smaller = [](double a, double b) { return b < a || std::isnan(b) ? b : a; };
      CHECK(all_same(values(max(x, dims)), one_by_one(x, dims, -kInfinity, larger)));
      CHECK(all_same(values(max(apart, dims)), one_by_one(x, dims, -kInfinity, larger)));
      CHECK(all_same(values(min(x, dims)), one_by_one(x, dims, kInfinity, smaller)));
      CHECK(values(sum(whole, dims)) == one_by_one(whole, dims, 0, plus));
      CHECK(values(max(whole, dims)) == one_by_one(whole, dims, -1e9, larger));
      CHECK(values(sum(truth, dims)) == one_by_one(truth, dims, 0, plus));
      CHECK(values(any(truth, dims)) == one_by_one(truth, dims, 0, larger));
      CHECK(values(all(truth, dims)) == one_by_one(truth, dims, 1, smaller));
      // All of x, or several adjacent dims, are one long row, which is summed in lanes.
      const Tensor kept = sum(x, dims, true);
      int64_t row = 1;
      for (int d = shape.rank() - 1; d >= 0 && kept.size(d) == 1; --d) row *= shape[d];
      if (row < 32) CHECK(all_same(values(kept), one_by_one(x, dims, 0, plus)));
    }
  }
}

TEST_CASE("sums along long rows: in 32 lanes, then what is left one by one") {
  Generator generator(6);
  for (const int64_t n : {32, 33, 64, 100}) {
    const Tensor x = randn({50, n}, generator, DType::float64);
    const Doubles elements = values(x), sums = values(sum(x, {1}));
    for (int64_t r = 0; r < 50; ++r) {
      const double* row = elements.data() + r * n;
      double lanes[32] = {}, expected = 0;
      int64_t done = 0;
      for (; done + 32 <= n; done += 32) {
        for (int64_t l = 0; l < 32; ++l) lanes[l] += row[done + l];
      }
      for (int64_t half = 16; half > 0; half /= 2) {
        for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
      }
      expected += lanes[0];
      for (; done < n; ++done) expected += row[done];
      CHECK(sums[static_cast<size_t>(r)] == expected);
    }
  }
}

TEST_CASE("reductions: short rows of an expanded tensor, where many results are of the same elements") {
  const Tensor x = arange(5).to(DType::float64).expand({70, 3, 60, 2, 60, 5});
  CHECK(values(sum(x, {1, 3, 5})) == Doubles(70 * 60 * 60, 60));
}

TEST_CASE("sums do not depend on the number of threads") {
  Generator generator(3);
  const Tensor x = randn({700, 300}, generator);
  const Tensor squares = x.reshape({70, 10, 25, 2, 3, 2});
  check_threads_change_no_bit(
      [&] { return std::vector<Tensor>{sum(x), sum(x, {0}), sum(x, {1}), sum(squares, {3, 5})}; });
}
