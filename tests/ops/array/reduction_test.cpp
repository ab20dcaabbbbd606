#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using linnet::test::near;
using test::Doubles;
using test::kInfinity;
using test::kNan;
using test::values;

namespace {

/// d sum(weights · f(x)) / dx
Tensor gradient(const std::function<Tensor(const Tensor&)>& f, Tensor x) {
  x = x.detach().set_requires_grad();
  return grad({sum(f(x))}, {x})[0];
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

TEST_CASE("reductions: a tensor of rank 0 along dims 0 and -1, as in PyTorch") {
  const Tensor x = scalar(-3, DType::float64);
  for (const int64_t dim : {0, -1}) {
    for (const bool keepdim : {false, true}) {
      const auto is = [](const Tensor& y, double expected) { return y.shape() == Shape{} && y.item() == expected; };
      CHECK(is(sum(x, dim, keepdim), -3));
      CHECK(is(prod(x, dim, keepdim), -3));
      CHECK(is(mean(x, dim, keepdim), -3));
      CHECK(is(var(x, dim, 0.0, keepdim), 0));
      CHECK(is(max(x, {dim}, keepdim), -3));
      CHECK(is(min(x, {dim}, keepdim), -3));
      CHECK(is(logsumexp(x, dim, keepdim), -3));
      CHECK(is(norm(x, 1, dim, keepdim), 3));
      CHECK(is(norm(x, 2, dim, keepdim), 3));
      CHECK(is(norm(x, 3, dim, keepdim), 3));
      CHECK(is(any(x, dim, keepdim), 1));
      CHECK(is(all(x, dim, keepdim), 1));
    }
    CHECK(gradient([=](const Tensor& y) { return sum(y, dim); }, x).item() == 1);
    CHECK(gradient([=](const Tensor& y) { return prod(y, dim); }, x).item() == 1);
    CHECK(gradient([=](const Tensor& y) { return logsumexp(y, dim); }, x).item() == 1);
    CHECK(gradient([=](const Tensor& y) { return norm(y, 2, dim); }, x).item() == -1);
  }
  CHECK(std::isnan(var(x, 0).item()));
  CHECK_THROWS_WITH_AS(sum(x, 1), doctest::Contains("sum: dim 1 does not exist"), ShapeError);
  CHECK_THROWS_WITH_AS(sum(x, {0, -1}), doctest::Contains("name dim 0 of x[] twice"), ShapeError);
}

TEST_CASE("reductions: of a tensor of rank 0 they share no elements with it") {
  const Tensor x = scalar(4);
  for (Tensor y : {max(x, 0).values, min(x, -1).values, median(x, 0).values}) y.fill_(7);
  CHECK(x.item() == 4);
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
  // The result of these rounds to 1e7 in float32; its gradient must still sum to 1.
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
    CHECK(std::abs(p[i] - exact[i]) <= 1e-6 * exact[i] + 1e-12);
    CHECK(std::abs(log_p[i] - log_exact[i]) <= 5e-6);
  }
}

// Without these errors, the calls would compile and mean something else.
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

TEST_CASE("prod") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(prod(x).item() == 720);
  CHECK(values(prod(x, 0)) == Doubles{4, 10, 18});
  CHECK(values(prod(x.t(), -2, true)) == Doubles{6, 120});
  CHECK(prod(x, 1, true).shape() == Shape{2, 1});
  CHECK(values(prod(zeros({2, 0}), 1)) == Doubles{1, 1});
  CHECK(prod(zeros({2, 0}), 0).shape() == Shape{0});
  CHECK(prod(scalar(3)).item() == 3);
  CHECK(prod(tensor({2, 3}, DType::int32)).dtype() == DType::int64);
  CHECK(prod(tensor({1, 0}, DType::boolean)).item<int64_t>() == 0);
  CHECK(std::isnan(prod(tensor({0, kNan})).item()));
  CHECK(std::isnan(prod(tensor({0, kInfinity})).item()));
  CHECK(prod(tensor({1e30, 1e30, 1e-30, 1e-30})).item() == near(1, 1e-6));  // no float32 holds 1e60
  // Long enough to be divided among threads.
  CHECK(prod(full({3, 100'000}, -1)).item() == 1);
  CHECK(values(prod(full({100'001, 2}, -1), 0)) == Doubles{-1, -1});
  CHECK_THROWS_WITH_AS(prod(x, 2), doctest::Contains("prod: dim 2 does not exist"), ShapeError);
}

TEST_CASE("prod and cumprod: gradients beside zeros, overflow and NaN are those of the other factors") {
  const auto product = [](auto& t) { return prod(t); };
  CHECK(values(gradient(product, tensor({2, 0, 3}))) == Doubles{0, 6, 0});
  CHECK(values(gradient(product, tensor({0, 2, 0}))) == Doubles{0, 0, 0});
  CHECK(values(gradient(product, tensor({1e30, 1e30, 1, 0})))[2] == 0);  // not ∞·0
  CHECK(values(gradient(product, scalar(5).reshape({1, 1}))) == Doubles{1});
  const Doubles beside_nan = values(gradient(product, tensor({kNan, 2})));
  CHECK(beside_nan[0] == 2);
  CHECK(std::isnan(beside_nan[1]));

  const auto running = [](auto& t) { return cumprod(t, 0); };
  CHECK(values(gradient(running, tensor({2, 0, 3, 4}))) == Doubles{1, 32, 0, 0});  // PyTorch's
  CHECK(values(gradient(running, tensor({0, 0, 3}))) == Doubles{1, 0, 0});
}

TEST_CASE("cumprod") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(values(cumprod(x, 1)) == Doubles{1, 2, 6, 4, 20, 120});
  CHECK(values(cumprod(x.t(), -1)) == Doubles{1, 4, 2, 10, 3, 18});
  CHECK(cumprod(zeros({2, 0}), 1).shape() == Shape{2, 0});
  CHECK(cumprod(scalar(3), 0).item() == 3);
  CHECK(cumprod(tensor({1, 0, 1}, DType::boolean), 0).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 0});
  CHECK(cumprod(tensor({3, 3}, DType::int32), 0).dtype() == DType::int64);
  CHECK(values(cumprod(tensor({2, kInfinity, 0.5}), 0)) == Doubles{2, kInfinity, kInfinity});
  const Doubles odd = values(cumprod(tensor({2, kNan, 0}), 0));
  CHECK(odd[0] == 2);
  CHECK((std::isnan(odd[1]) && std::isnan(odd[2])));
  CHECK(std::isnan(values(cumprod(tensor({0, kInfinity}), 0))[1]));
  CHECK_THROWS_WITH_AS(cumprod(x, -3), doctest::Contains("cumprod: dim -3 does not exist"), ShapeError);
}

TEST_CASE("cumprod and its gradient are the same for any number of threads") {
  Generator generator(15);
  const Tensor x = randn({300, 70}, generator).set_requires_grad();
  check_threads_change_no_bit([&] {
    const Tensor y = cumprod(x, 1);
    return std::vector<Tensor>{y.detach(), grad({sum(y)}, {x})[0], grad({sum(prod(x, 0))}, {x})[0]};
  });
}

TEST_CASE("median: the lower of the middle two, with its index") {
  CHECK(median(tensor({3, 1, 2, 4})).item() == 2);
  CHECK(median(tensor({{5, 1}, {3, 9}, {4, 7}}).t()).item() == 4);
  CHECK(median(scalar(5)).item() == 5);
  const auto [values_, indices] = median(tensor({3, 1, 2, 6, 9, 5}, {2, 3}), -1);
  CHECK(values(values_) == Doubles{2, 6});
  CHECK(values(indices) == Doubles{2, 0});
  CHECK(indices.dtype() == DType::int64);
  CHECK(median(zeros({2, 3}), 0, true).indices.shape() == Shape{1, 3});
  CHECK(median(tensor({7, 3, 5}, DType::int64)).item<int64_t>() == 5);
  CHECK(median(scalar(4), 0).indices.shape() == Shape{});
  CHECK(median(zeros({2, 0}), 0).values.shape() == Shape{0});

  const Tensor x = tensor({3, kNan, 2, kNan, 8, 1}, {2, 3});
  CHECK(std::isnan(median(x).item()));
  CHECK(values(median(x, 1).indices) == Doubles{1, 0});
  CHECK(std::isnan(values(median(x, 1).values)[1]));
  CHECK(values(median(x, 0).values)[2] == 1);

  CHECK(values(gradient([](auto& t) { return median(t); }, tensor({1, 2, 2, 3, 2, 2}))) ==
        Doubles{0, 0.25, 0.25, 0, 0.25, 0.25});  // PyTorch's
  const Tensor slope = gradient([](auto& t) { return median(t, 0).values; }, tensor({1, 2, 2, 3, 2, 2}));
  CHECK(sum(slope).item() == 1);
  CHECK(max(slope).item() == 1);

  CHECK_THROWS_WITH_AS(median(zeros({2, 0})), doctest::Contains("median: x[2, 0] holds no elements"), ShapeError);
  CHECK_THROWS_WITH_AS(median(zeros({2, 0}), 1), doctest::Contains("median: dim 1 of x[2, 0] holds no elements"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(median(x > 0), doctest::Contains("median: x is bool"), DTypeError);
  CHECK_THROWS_AS(median(x, 2), ShapeError);
}

TEST_CASE("diff") {
  const Tensor x = tensor({1, 4, 9, 0, 2, 3}, {2, 3});
  CHECK(values(diff(x)) == Doubles{3, 5, 2, 1});
  CHECK(values(diff(x, 2)) == Doubles{2, -1});
  CHECK(diff(x, 7).shape() == Shape{2, 0});
  CHECK(values(diff(x, 1, 0)) == Doubles{-1, -2, -6});
  CHECK(diff(x, 0, 0, x).is(x));
  CHECK(values(diff(x, 1, 0, zeros({1, 3}))) == Doubles{1, 4, 9, -1, -2, -6});
  CHECK(values(diff(x, 1, 1, zeros({2, 1}), full({2, 1}, 10))) == Doubles{1, 3, 5, 1, 0, 2, 1, 7});
  CHECK(diff(zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(diff(tensor({1, 0, 0}, DType::boolean)).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(diff(tensor({5, 3}, DType::int64)).item<int64_t>() == -2);
  CHECK_THROWS_WITH_AS(diff(x, -1), doctest::Contains("diff: n is -1"), ValueError);
  CHECK_THROWS_WITH_AS(diff(scalar(1)), doctest::Contains("diff: dim -1 does not exist"), ShapeError);
  CHECK_THROWS_WITH_AS(diff(x, 1, 1, zeros({1, 3})),
                       doctest::Contains("diff: tensor 0 is [1, 3], tensor 1 is [2, 3]"), ShapeError);
}
