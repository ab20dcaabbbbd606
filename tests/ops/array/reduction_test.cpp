#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using linnet::test::near;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Doubles = std::vector<double>;

Doubles values(const Tensor& x) { return x.to_vector<double>(); }

/// d sum(weights · f(x)) / dx
Tensor gradient(const std::function<Tensor(const Tensor&)>& f, Tensor x) {
  x = x.detach().set_requires_grad();
  return grad({sum(f(x))}, {x})[0];
}

/// Joins the elements of contiguous x one by one, in the order of memory, to the result that each is for.
template <class Join>
Doubles one_by_one(const Tensor& x, const Shape& dims, double start, const Join& join) {
  Shape strides = contiguous_strides(x.shape());  // in what is kept, 0 where x is reduced
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

/// Whether they are the same, to the bit or as NaN.
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

TEST_CASE("reductions: values over dims") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(sum(x).item<float>() == 21);
  CHECK(values(sum(x, {0})) == Doubles{5, 7, 9});
  CHECK(values(sum(x, {-1})) == Doubles{6, 15});
  CHECK(sum(x, {1}, true).shape() == Shape{2, 1});
  CHECK(sum(x, {0, 1}, true).shape() == Shape{1, 1});
  CHECK(values(mean(x, {1})) == Doubles{2, 5});
  CHECK(values(max(x, {0})) == Doubles{4, 5, 6});
  CHECK(values(min(x, {1})) == Doubles{1, 4});
  CHECK(values(var(x, {1})) == Doubles{1, 1});
  CHECK(var(x.to(DType::float64), {}, 0).item<double>() == doctest::Approx(35.0 / 12));
  CHECK(values(argmax(x, 1)) == Doubles{2, 2});
  CHECK(values(argmin(x, 0)) == Doubles{0, 0, 0});
  CHECK(argmax(x, 1, true).shape() == Shape{2, 1});
  CHECK(values(cumsum(x, 1)) == Doubles{1, 3, 6, 4, 9, 15});
  CHECK(values(cumsum(x, 0)) == Doubles{1, 2, 3, 5, 7, 9});
}

TEST_CASE("reductions: strided, permuted and expanded inputs") {
  Generator generator(1);
  const Tensor x = randn({6, 5, 4}, generator, DType::float64);
  const Tensor permuted = x.permute({2, 0, 1});
  for (const Shape& dims : {Shape{0}, Shape{1}, Shape{2}, Shape{0, 1}, Shape{0, 2}, Shape{1, 2}, Shape{}}) {
    const Doubles expected = values(sum(permuted.contiguous(), dims));
    const Doubles actual = values(sum(permuted, dims));
    REQUIRE(actual.size() == expected.size());
    for (size_t i = 0; i < actual.size(); ++i) CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-13));
    CHECK(values(max(permuted, dims)) == values(max(permuted.contiguous(), dims)));
  }
  CHECK(values(sum(x.slice(2, 0, 4, 2), {2})) == values(sum(x.slice(2, 0, 4, 2).contiguous(), {2})));
  CHECK(sum(tensor({2}).expand({3, 5})).item<float>() == 30);
  CHECK(values(sum(tensor({1, 2, 3}).unsqueeze(1).expand({3, 4}), {0})) == Doubles{6, 6, 6, 6});
  CHECK(values(softmax(x, 0).transpose(0, 2)) == values(softmax(x.transpose(0, 2), 2)));
}

TEST_CASE("reductions: long and short ones, against plain sums") {
  Generator generator(2);
  for (const Shape& shape : {Shape{1, 1, 100003}, Shape{3, 70001, 2}, Shape{2, 300, 513}, Shape{70001, 1, 3},
                             Shape{1000, 7, 31}, Shape{5, 1, 33}}) {
    const Tensor x = randn(shape, generator, DType::float64);
    for (int dim = 0; dim < 3; ++dim) {
      const Doubles expected = plain_sums(x, dim);
      const Doubles actual = values(sum(x, {dim}));
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(actual[i] - expected[i]));
      CAPTURE(to_string(shape));
      CHECK(worst < 1e-10);
    }
  }
}

TEST_CASE("reductions of few elements join them in the order of memory, in every layout") {
  Generator generator(4);
  // With short dims inside, outside and between; several reduced ones; more results than fit side by side.
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
    // The same elements of a permuted tensor lie in memory as they did.
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
    const Tensor apart = concat({x, x}, -1).slice(-1, 0, x.size(-1));  // rows of x further apart
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
      // All of x, and what several dims in a row hold, is a long row, which is summed in lanes.
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

TEST_CASE("reductions: dtypes") {
  CHECK(sum(tensor({1, 2, 3}, DType::int32)).dtype() == DType::int64);
  CHECK(sum(tensor({1, 0, 1}, DType::boolean)).item<int64_t>() == 2);
  CHECK(cumsum(tensor({1, 0, 1}, DType::boolean), 0).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2});
  CHECK(max(tensor({-3, -5}, DType::int64)).item<int64_t>() == -3);
  CHECK(min(tensor({-3, -5}, DType::int32)).dtype() == DType::int32);
  CHECK(any(tensor({0, 0.5})).item<bool>());
  CHECK_FALSE(all(tensor({0, 0.5})).item<bool>());
  CHECK(any(tensor({0, 0, 1, 0}, {2, 2}, DType::int64), {1}).to_vector<bool>() == std::vector<bool>{false, true});
}

TEST_CASE("reductions: nothing, NaN and infinities") {
  const Tensor none = zeros({2, 0});
  CHECK(values(sum(none, {1})) == Doubles{0, 0});
  CHECK(sum(none, {0}).shape() == Shape{0});
  CHECK(std::isnan(mean(none).item<float>()));
  CHECK_FALSE(any(none).item<bool>());
  CHECK(all(none).item<bool>());
  CHECK(values(logsumexp(none, {1})) == Doubles{-kInfinity, -kInfinity});
  CHECK(std::isnan(var(tensor({1})).item<float>()));

  const Tensor x = tensor({1, kNan, 3, 7, 5, 6}, {2, 3});
  CHECK(std::isnan(max(x).item<float>()));
  CHECK(std::isnan(min(x, {1}).select(0, 0).item<float>()));
  CHECK(max(x, {1}).select(0, 1).item<float>() == 7);
  CHECK(values(argmax(x, 1)) == Doubles{1, 0});
  CHECK(values(argmin(x, 1)) == Doubles{1, 1});
  CHECK(max(tensor({-kInfinity, -kInfinity})).item<float>() == -kInfinity);
  CHECK(argmax(tensor({3, 5, 5, 1}), 0).item<int64_t>() == 1);
}

TEST_CASE("max and min share the gradient among equals") {
  const Tensor x = tensor({2, 5, 5, 1, 1, 0}, {2, 3}, DType::float64);
  CHECK(values(gradient([](auto& t) { return max(t, {1}); }, x)) == Doubles{0, 0.5, 0.5, 0.5, 0.5, 0});
  CHECK(values(gradient([](auto& t) { return min(t, {}, true); }, x)) == Doubles{0, 0, 0, 0, 0, 1});
}

TEST_CASE("logsumexp is stable") {
  CHECK(logsumexp(tensor({1000, 1000})).item<float>() == doctest::Approx(1000 + std::log(2)));
  CHECK(logsumexp(tensor({-1000, -1000})).item<float>() == doctest::Approx(-1000 + std::log(2)));
  const Tensor x = tensor({-kInfinity, -kInfinity, 0, -kInfinity}, {2, 2});
  CHECK(values(logsumexp(x, {1})) == Doubles{-kInfinity, 0});
  CHECK(values(gradient([](auto& t) { return logsumexp(t, {1}); }, x)) == Doubles{0, 0, 1, 0});
  // The result of these rounds to 1e7 in float32; its gradient sums to 1 all the same.
  CHECK(values(gradient([](auto& t) { return logsumexp(t); }, tensor({1e7, 1e7}))) == Doubles{0.5, 0.5});
}

TEST_CASE("norm") {
  const Tensor x = tensor({3, -4, 0, 0}, {2, 2}, DType::float64);
  CHECK(values(norm(x, 2, {1})) == Doubles{5, 0});
  CHECK(values(norm(x, 1, {1})) == Doubles{7, 0});
  CHECK(values(norm(x, kInfinity, {1})) == Doubles{4, 0});
  CHECK(norm(x, 3).item<double>() == doctest::Approx(std::cbrt(91.0)));
  CHECK(values(gradient([](auto& t) { return mul(norm(t, 2, {1}), 5); }, x)) == Doubles{3, -4, 0, 0});
  CHECK(values(gradient([](auto& t) { return norm(t, 3); }, zeros({2}))) == Doubles{0, 0});
}

TEST_CASE("norm of float32: no square or power of an element is too large or too small for it") {
  for (const double size : {1e20, 1e-25, 1e-40}) {
    const double element = static_cast<float>(size);
    for (const double p : {2.0, 3.0, 6.0}) {
      CAPTURE(size);
      CAPTURE(p);
      const Tensor x = tensor({element, -element}).to(DType::float32);
      CHECK(norm(x, p).item<double>() == near(std::pow(2, 1 / p) * element, 1e-5));
      const double slope = std::pow(2, 1 / p - 1);
      const Doubles slopes = values(gradient([=](auto& t) { return norm(t, p); }, x));
      CHECK(slopes[0] == near(slope, 1e-4));  // 1e-40 and its norm have 17 bits
      CHECK(slopes[1] == near(-slope, 1e-4));
    }
  }
  CHECK(norm(tensor({3e38, 3e38}).to(DType::float32)).item<float>() == kInfinity);
  CHECK(values(norm(zeros({2, 0}), 2, {1})) == Doubles{0, 0});
}

TEST_CASE("softmax: values, extremes and rank 0") {
  const Tensor x = tensor({0, std::log(3), 1000, 1000}, {2, 2}, DType::float64);
  const Doubles p = values(softmax(x));
  CHECK(p[0] == doctest::Approx(0.25));
  CHECK(p[1] == doctest::Approx(0.75));
  CHECK(p[2] == 0.5);
  CHECK(values(log_softmax(x))[1] == doctest::Approx(std::log(0.75)));
  CHECK(values(log_softmax(tensor({0, -200}, DType::float64)))[1] == doctest::Approx(-200));
  CHECK(softmax(scalar(4)).item<float>() == 1);

  const Tensor masked = tensor({-kInfinity, -kInfinity, -kInfinity, 2}, {2, 2}, DType::float64);
  CHECK(values(softmax(masked)) == Doubles{0, 0, 0, 1});
  CHECK(values(log_softmax(masked)) == Doubles{-kInfinity, -kInfinity, -kInfinity, 0});
  CHECK(values(gradient([](auto& t) { return mul(softmax(t), tensor({1, 3}, DType::float64)); }, masked)) ==
        Doubles{0, 0, 0, 0});
}

TEST_CASE("softmax of float32 agrees with float64") {
  Generator generator(4);
  const Tensor x = mul(randn({20, 1001}, generator), 5);
  const Doubles p = values(softmax(x)), exact = values(softmax(x.to(DType::float64)));
  const Doubles log_p = values(log_softmax(x)), log_exact = values(log_softmax(x.to(DType::float64)));
  for (size_t i = 0; i < p.size(); ++i) {
    // A few roundings of the exponential, and the rounding of x − max and log p, which may be 40.
    if (std::abs(p[i] - exact[i]) > 1e-6 * exact[i] + 1e-12) CHECK(p[i] == exact[i]);
    if (std::abs(log_p[i] - log_exact[i]) > 5e-6) CHECK(log_p[i] == log_exact[i]);
  }
}

// What would compile and mean something else.
template <class... Arguments>
concept TakenByVar = requires(Arguments... arguments) { var(arguments...); };
static_assert(TakenByVar<Tensor, Shape, int> && TakenByVar<Tensor, Shape, double, bool>);
static_assert(!TakenByVar<Tensor, Shape, bool>, "keepdim in the place of the correction");
template <class T>
concept BracesForNorm = requires(T x) { norm(x, {1}); };
static_assert(!BracesForNorm<Tensor>, "dims in the place of p");

TEST_CASE("reductions: errors") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(sum(x, {2}), doctest::Contains("sum: dim 2 does not exist: the tensor has rank 2"),
                       ShapeError);
  for (const double p : {1.0, 2.0, kInfinity}) {
    CHECK_THROWS_WITH_AS(norm(x.to(DType::int64), p), doctest::Contains("norm: takes floating tensors, not int64"),
                         DTypeError);
  }
  CHECK_THROWS_WITH_AS(mean(x > 0), doctest::Contains("mean: takes floating tensors, not bool"), DTypeError);
  CHECK_THROWS_WITH_AS(mean(x.to(DType::int32)), doctest::Contains("mean: takes floating tensors, not int32"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(mean(x, {1, -1}), doctest::Contains("mean: dims [1, -1] name dim 1 of x[2, 3] twice"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(max(zeros({2, 0}), {1}),
                       doctest::Contains("max: dims [1] of x[2, 0] hold no elements to choose from"), ShapeError);
  CHECK_THROWS_WITH_AS(argmin(zeros({2, 0}), 1),
                       doctest::Contains("argmin: dim 1 of x[2, 0] holds no elements to choose from"), ShapeError);
  CHECK_THROWS_WITH_AS(max(zeros({2}, DType::boolean)), doctest::Contains("max: x is bool; use any or all"),
                       DTypeError);
  CHECK_THROWS_AS(mean(zeros({2}, DType::int64)), DTypeError);
  CHECK_THROWS_AS(softmax(zeros({2}, DType::int64)), DTypeError);
  CHECK_THROWS_AS(logsumexp(zeros({2}, DType::int64)), DTypeError);
  CHECK_THROWS_WITH_AS(norm(x, 0.5), doctest::Contains("norm: p is 0.5; a norm needs p of at least 1"), ValueError);
  CHECK_THROWS_AS(cumsum(x, 2), ShapeError);
}

TEST_CASE("norm: the second derivative at an exact 0 is infinite there, and reaches no other element") {
  Tensor x = tensor({1, 0, 2}, DType::float64);
  x.set_requires_grad();
  const Tensor first = grad({norm(x, 1.5)}, {x}, {.create_graph = true})[0];
  const std::vector<double> second = grad({sum(first)}, {x})[0].to_vector<double>();
  CHECK(std::isfinite(second[0]));
  CHECK_FALSE(std::isfinite(second[1]));
  CHECK(std::isfinite(second[2]));
  // As in a row without the 0, whose norm is the same.
  Tensor y = tensor({1, 2}, DType::float64);
  y.set_requires_grad();
  const Tensor shorter = grad({norm(y, 1.5)}, {y}, {.create_graph = true})[0];
  const std::vector<double> expected = grad({sum(shorter)}, {y})[0].to_vector<double>();
  CHECK(second[0] == doctest::Approx(expected[0]).epsilon(1e-12));
  CHECK(second[2] == doctest::Approx(expected[1]).epsilon(1e-12));
}

TEST_CASE("norm: gradients beside an infinity and a NaN") {
  const auto of = [](double p, const Tensor& x) {
    return gradient([p](const Tensor& y) { return norm(y, p); }, x).to_vector<double>();
  };
  for (const double p : {1.5, 2.0, 3.0}) {
    const Doubles infinite = of(p, tensor({kInfinity, 1, 2}));  // PyTorch's
    CHECK(std::isnan(infinite[0]));
    CHECK(infinite[1] == 0);
    CHECK(infinite[2] == 0);
  }
  for (const double p : {1.0, 1.5, 2.0, kInfinity}) CHECK(std::isnan(of(p, tensor({kNan, 1}))[0]));
  CHECK(of(1, tensor({kNan, 1}))[1] == 1);
}

TEST_CASE("max and min along a dim give values and indices, and gradients to these elements alone") {
  Tensor x = tensor({3, 5, 5, 2, 1, kNan}, {2, 3}, DType::float64);
  x.set_requires_grad();
  const auto [largest, at] = max(x, 1);
  CHECK(largest.shape() == Shape{2});
  CHECK(largest.to_vector<double>()[0] == 5);
  CHECK(std::isnan(largest.to_vector<double>()[1]));
  CHECK(at.to_vector<int64_t>() == std::vector<int64_t>{1, 2});
  CHECK(values(grad({sum(largest)}, {x})[0]) == Doubles{0, 1, 0, 0, 0, 1});
  const auto [smallest, where] = min(x, -2, true);
  CHECK(smallest.shape() == Shape{1, 3});
  CHECK(where.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
  const auto [alone, first] = max(scalar(4.0), 0);
  CHECK(alone.item() == 4);
  CHECK(first.shape() == Shape{});
  CHECK(max(x, {1}).shape() == Shape{2});  // braces are dims to reduce
  CHECK_THROWS_AS(max(x, 2), ShapeError);
}
