#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>

#include "tests/support/values.h"

/// Values at the ends of domains, at halves and at zeros of either sign. The golden test has other values, and
/// gradients.

using namespace linnet;
using test::Bools;
using test::Doubles;
using test::Ints;
using test::kInfinity;
using test::kNan;
using test::values;

namespace {

/// Checks that the values are equal except for a few roundings, with equal signs of zeros and infinities, and equal
/// NaNs.
bool agrees(double y, double exact, double eps) {
  if (std::isnan(exact)) return std::isnan(y);
  if (exact == 0 || std::isinf(exact)) return y == exact && std::signbit(y) == std::signbit(exact);
  return std::abs(y - exact) <= 4 * eps * std::abs(exact);
}

/// Compares with `exact` for the same numbers, in both dtypes.
template <class F, class Exact>
void check_all(const char* name, F f, Exact exact, const Doubles& at) {
  const Doubles wide = values(f(tensor(at)));
  const std::vector<float> near(at.begin(), at.end());
  const Doubles narrow = values(f(tensor(near)));
  for (size_t i = 0; i < at.size(); ++i) {
    CHECK_MESSAGE(agrees(wide[i], exact(at[i]), 0x1p-53), name, " of ", at[i], " is ", wide[i]);
    const double expected = static_cast<float>(exact(double{near[i]}));
    CHECK_MESSAGE(agrees(narrow[i], expected, 0x1p-24), name, " of float ", near[i], " is ", narrow[i]);
  }
}

/// d sum(f(x)) / dx
template <class F>
Doubles gradient(F f, const Doubles& at) {
  const Tensor x = tensor(at).set_requires_grad();
  return values(grad({sum(f(x))}, {x})[0]);
}

const Doubles kCorners = {kNan, -kInfinity, kInfinity, -0.0, 0.0,  -0.5,  0.5, -1,   1,
                          -1.5, 1.5,        -2.5,      2.5,  -0.3, 3e-30, 700, -700, 4503599627370495.5};

}  // namespace

TEST_CASE("functions: those of the standard library, at zeros and infinities too") {
  const auto check = [](const char* name, Tensor (*f)(const Tensor&, Where), double (*exact)(double)) {
    check_all(name, [f](const Tensor& x) { return f(x, {}); }, exact, kCorners);
  };
  check("floor", floor, std::floor);
  check("ceil", ceil, std::ceil);
  check("round", round, std::nearbyint);
  check("trunc", trunc, std::trunc);
  check("expm1", expm1, std::expm1);
  check("log1p", log1p, std::log1p);
  check("log2", log2, std::log2);
  check("log10", log10, std::log10);
  check("tan", tan, std::tan);
  check("asin", asin, std::asin);
  check("acos", acos, std::acos);
  check("atan", atan, std::atan);
  check("sinh", sinh, std::sinh);
  check("cosh", cosh, std::cosh);
}

TEST_CASE("functions: rounding takes the even one of two, and leaves integers") {
  CHECK(values(round(tensor({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.6}))) == Doubles{-2, -2, 0, 0, 2, 2, 3});
  const Tensor big = tensor(Ints{(int64_t{1} << 60) + 1, -3});
  for (const Tensor& y : {floor(big), ceil(big), round(big), trunc(big)}) {
    CHECK(y.to_vector<int64_t>() == big.to_vector<int64_t>());
  }
  CHECK_THROWS_AS(floor(ones({2}, DType::boolean)), DTypeError);
  CHECK(gradient([](const Tensor& x) { return floor(x) + ceil(x) + round(x) + trunc(x); }, {0.5, 2, kNan}) ==
        Doubles{0, 0, 0});
}

TEST_CASE("functions: asin and acos at their ends") {
  CHECK(gradient([](const Tensor& x) { return asin(x); }, {-1, 1}) == Doubles{kInfinity, kInfinity});
  CHECK(gradient([](const Tensor& x) { return acos(x); }, {-1, 1}) == Doubles{-kInfinity, -kInfinity});
  CHECK(std::isnan(gradient([](const Tensor& x) { return asin(x); }, {1.5})[0]));
}

TEST_CASE("remainder: the sign is the divisor's, in every dtype") {
  for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::int64}) {
    const Tensor x = tensor({-3, -2, -1, 0, 1, 2, 3}, dtype);
    CHECK(values(remainder(x, 2)) == Doubles{1, 0, 1, 0, 1, 0, 1});
    CHECK(values(x % -2) == Doubles{-1, 0, -1, 0, -1, 0, -1});
    CHECK(values(7 % tensor({-4, 3, 9}, dtype)) == Doubles{-1, 1, 7});
    CHECK(values(tensor({-5, 5}, dtype).unsqueeze(1) % tensor({3, -3}, dtype)) == Doubles{1, -2, 2, -1});
    CHECK(remainder(x, 2).dtype() == dtype);
  }
  CHECK(values(remainder(tensor({1, 2, 3, 4, 5}), -1.5)) == Doubles{-0.5, -1, 0, -0.5, -1});
}

TEST_CASE("remainder: of floating zeros, infinities and NaN, as in PyTorch") {
  const Doubles y = values(tensor({1, -1, 1, -1, kInfinity, kNan, 0}, DType::float64) %
                           tensor({kInfinity, kInfinity, -kInfinity, -kInfinity, 2, 2, 0}, DType::float64));
  CHECK(Doubles(y.begin(), y.begin() + 4) == Doubles{1, kInfinity, -kInfinity, -1});
  for (size_t i = 4; i < y.size(); ++i) CHECK(std::isnan(y[i]));
  CHECK(std::isnan((tensor({1}) % 0).item()));
}

TEST_CASE("remainder: integers are not divided by 0, and the smallest by −1") {
  const auto message = doctest::Contains("remainder: b holds 0, and integers are not divided by 0");
  for (const DType dtype : {DType::int32, DType::int64}) {
    const Tensor x = tensor({-5, 5}, dtype);
    CHECK_THROWS_WITH_AS(x % 0, message, ValueError);
    CHECK_THROWS_WITH_AS(x % tensor({2, 0}, dtype), message, ValueError);
    CHECK_THROWS_WITH_AS(3 % tensor({2, 0}, dtype), message, ValueError);
  }
  CHECK((tensor(Ints{std::numeric_limits<int64_t>::min()}) % -1).item<int64_t>() == 0);
  CHECK((tensor(std::vector<int32_t>{std::numeric_limits<int32_t>::min()}) % -1).item<int32_t>() == 0);
  CHECK_THROWS_AS(remainder(ones({2}, DType::boolean), ones({2}, DType::boolean)), DTypeError);
  CHECK_THROWS_AS(arange(3) % 0.5, DTypeError);
}

TEST_CASE("floor_divide: rounds down, in every dtype, as in PyTorch") {
  for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::int64}) {
    const Tensor a = tensor({7, -7, 7, -7, 0, -6, 6}, {7}, dtype), b = tensor({2, 2, -2, -2, 3, 3, -3}, {7}, dtype);
    CHECK(values(floor_divide(a, b)) == Doubles{3, -4, -4, 3, 0, -2, -2});
    CHECK(values(floor_divide(a, 2)) == Doubles{3, -4, 3, -4, 0, -3, 3});
    CHECK(values(floor_divide(a, -2)) == Doubles{-4, 3, -4, 3, 0, 3, -3});
    CHECK(values(floor_divide(7, b)) == Doubles{3, 3, -4, -4, 2, 2, -3});
    CHECK(values(floor_divide(a.unsqueeze(1), b)).size() == 49);
    CHECK(floor_divide(a, b).dtype() == dtype);
  }
  CHECK(gradient([](const Tensor& x) { return floor_divide(x, 2); }, {7, -7, 0, kNan}) == Doubles{0, 0, 0, 0});
}

TEST_CASE("floor_divide: zeros, infinities and quotients that round up, as in PyTorch") {
  const Doubles a{kInfinity, -kInfinity, kNan, 5, 5, -5, 0, 5, -5, 6, 0.3, 1, 1e30, -1e-30, -5};
  const Doubles b{2, 2, 2, kInfinity, -kInfinity, kInfinity, 0, 0, 0, kNan, 0.1, 0.1, 1e-30, 1, -kInfinity};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Doubles y = values(floor_divide(tensor(a).to(dtype), tensor(b).to(dtype)));
    const double huge = dtype == DType::float32 ? kInfinity : 1e60;
    const Doubles expected{kNan, kNan, kNan, 0, -1, -1, kNan, kInfinity, -kInfinity, kNan, 0, 9, huge, -1, 0};
    for (size_t i = 0; i < y.size(); ++i) {
      if (a[i] == 0.3) continue;  // 3 // 1 in float32, and 2 in float64
      CHECK_MESSAGE((y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i]))), a[i], " // ", b[i],
                    " is ", y[i]);
    }
  }
  CHECK(floor_divide(tensor({0.3}), tensor({0.1})).item() == 3);
  CHECK(floor_divide(tensor({0.3}, {1}, DType::float64), 0.1).item() == 2);
}

TEST_CASE("floor_divide: large integers are exact, and none is divided by 0") {
  const int64_t large = (int64_t{1} << 62) - 1;
  for (const int64_t a : {large, -large, large - 12345}) {
    for (const int64_t b : {int64_t{1}, int64_t{-1}, int64_t{3}, int64_t{-7}, int64_t{1} << 40, large}) {
      const int64_t down = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
      CHECK(floor_divide(tensor(Ints{a}), tensor(Ints{b})).item<int64_t>() == down);
    }
  }
  CHECK(floor_divide(tensor(std::vector<int32_t>{INT32_MIN, INT32_MAX}), 3).to_vector<int32_t>() ==
        std::vector<int32_t>{-715827883, 715827882});
  CHECK_THROWS_WITH_AS(floor_divide(arange(3), 0, {"a.cpp", 7}),
                       "floor_divide: b holds 0, and integers are not divided by 0; floating tensors are: "
                       "to(DType::float32) (a.cpp:7)",
                       ValueError);
  CHECK_THROWS_AS(floor_divide(arange(3), arange(3)), ValueError);
  CHECK_THROWS_AS(floor_divide(3, arange(3)), ValueError);
  CHECK_THROWS_AS(floor_divide(arange(3), 0.5), DTypeError);
  CHECK_THROWS_AS(floor_divide(arange(3), ones({3})), DTypeError);
  CHECK_THROWS_WITH_AS(floor_divide(ones({2}, DType::boolean), ones({2}, DType::boolean)),
                       doctest::Contains("a and b are bool; convert them"), DTypeError);
}

TEST_CASE("nan_to_num: what replaces NaN and infinities, as in PyTorch") {
  const Doubles at{kNan, kInfinity, -kInfinity, 1.5};
  CHECK(values(nan_to_num(tensor(at))) == Doubles{0, 1.7976931348623157e308, -1.7976931348623157e308, 1.5});
  CHECK(values(nan_to_num(tensor(at).to(DType::float32))) ==
        Doubles{0, 3.4028234663852886e38, -3.4028234663852886e38, 1.5});
  CHECK(values(nan_to_num(tensor(at), 2, 3, -4)) == Doubles{2, 3, -4, 1.5});
  CHECK(values(nan_to_num(tensor(at), kInfinity, 3)) == Doubles{kInfinity, 3, -1.7976931348623157e308, 1.5});
  CHECK(gradient([](const Tensor& x) { return nan_to_num(x); }, at) == Doubles{0, 0, 0, 1});
  const Tensor integers = arange(3);
  CHECK(nan_to_num(integers, 0.5).to_vector<int64_t>() == Ints{0, 1, 2});
  nan_to_num(integers).fill_(7);  // a copy
  CHECK(integers.to_vector<int64_t>() == Ints{0, 1, 2});
}

TEST_CASE("atan2: every quadrant, zeros of either sign, infinities") {
  for (const double b : kCorners) {
    check_all(
        "atan2", [b](const Tensor& a) { return atan2(a, full({}, b, a.dtype())); },
        [b](double a) { return std::atan2(a, b); }, {kNan, -kInfinity, kInfinity, -0.0, 0.0, -1, 1, 2.5});
  }
  CHECK(gradient([](const Tensor& a) { return atan2(a, a * 0); }, {0, -0.0}) == Doubles{0, 0});
  CHECK(gradient([](const Tensor& b) { return atan2(b * 0, b); }, {0, -0.0}) == Doubles{0, 0});
  CHECK_THROWS_AS(atan2(arange(3), arange(3)), DTypeError);
}

TEST_CASE("lerp: its ends are exact, and so is what does not change") {
  const Tensor start = tensor({1e8F, 0.1F, -3.0F}), end = tensor({1.0F, 0.1F, 0.7F});
  const std::vector<float> first = start.to_vector<float>(), last = end.to_vector<float>();
  CHECK(lerp(start, end, 0).to_vector<float>() == first);
  CHECK(lerp(start, end, 1).to_vector<float>() == last);
  CHECK(lerp(start, end, tensor({0.0F, 0.0F, 0.0F})).to_vector<float>() == first);
  CHECK(lerp(start, end, tensor({1.0F, 1.0F, 1.0F})).to_vector<float>() == last);
  for (const double weight : {-0.5, 0.3, 0.7, 2.0}) {
    CHECK(lerp(start, end, weight)[1].item<float>() == first[1]);
    CHECK(lerp(start, end, full({}, weight)).to_vector<float>() == lerp(start, end, weight).to_vector<float>());
  }
  CHECK(values(lerp(tensor({0, 10}), tensor({{4, 20}, {8, 30}}), tensor({0.5, 0.25}, {2, 1}))) ==
        Doubles{2, 15, 2, 15});
  CHECK_THROWS_WITH_AS(lerp(arange(3), arange(3), 1, {"a.cpp", 7}),
                       "lerp: takes floating tensors, not int64; convert with to(DType::float32) (a.cpp:7)",
                       DTypeError);
  CHECK_THROWS_AS(lerp(start, end, tensor({0.5, 0.5, 0.5}, DType::float64)), DTypeError);
}

TEST_CASE("compare: NaN, infinities and finite numbers") {
  const Tensor x = tensor({kNan, kInfinity, -kInfinity, -0.0, 3e38, -5}, DType::float64);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor y = x.to(dtype);
    const AnomalyMode anomaly;  // these ops look for NaN, and must not make one
    CHECK(isnan(y).to_vector<bool>() == Bools{true, false, false, false, false, false});
    CHECK(isinf(y).to_vector<bool>() == Bools{false, true, true, false, false, false});
    CHECK(isfinite(y).to_vector<bool>() == Bools{false, false, false, true, true, true});
  }
  for (const DType dtype : {DType::int32, DType::int64, DType::boolean}) {
    const Tensor y = tensor({0, 1}, dtype);
    CHECK(isnan(y).to_vector<bool>() == Bools{false, false});
    CHECK(isinf(y).to_vector<bool>() == Bools{false, false});
    CHECK(isfinite(y).to_vector<bool>() == Bools{true, true});
  }
}

TEST_CASE("compare: isclose, element by element") {
  const Tensor a = tensor({1, 1, 100, kNan, kInfinity, kInfinity, kInfinity, 1}, DType::float64);
  const Tensor b = tensor({1 + 1e-9, 1.001, 100.0009, kNan, kInfinity, -kInfinity, 1, kInfinity}, DType::float64);
  CHECK(isclose(a, b).to_vector<bool>() == Bools{true, false, true, false, true, false, false, false});
  CHECK(isclose(a, b, 1e-5, 1e-8, true).to_vector<bool>() ==
        Bools{true, false, true, true, true, false, false, false});
  // The tolerance is relative to b, and not to a.
  CHECK(isclose(tensor({10}), tensor({11}), 0.095, 0).item<bool>());
  CHECK_FALSE(isclose(tensor({11}), tensor({10}), 0.095, 0).item<bool>());
  CHECK(isclose(tensor({0}), tensor({0.25}), 0, 0.25).item<bool>());
  CHECK(isclose(tensor({1, 2}, {2, 1}), tensor({1, 2})).to_vector<bool>() == Bools{true, false, false, true});
  // Numbers are not close if the difference and the tolerance both overflow.
  CHECK_FALSE(isclose(tensor({-3e38F}), tensor({3e38F}), 2).item<bool>());
  CHECK_FALSE(allclose(tensor({-3e38F}), tensor({3e38F}), 2));
  CHECK_THROWS_WITH_AS(isclose(a, b, -1, 0, false, {"a.cpp", 7}),
                       "isclose: rtol is -1 and atol 0; neither may be negative (a.cpp:7)", ValueError);
  CHECK_THROWS_WITH_AS(allclose(a, b, 0, kNan, false, {"a.cpp", 7}),
                       "allclose: rtol is 0 and atol nan; neither may be negative (a.cpp:7)", ValueError);
}

TEST_CASE("compare: isclose of integers and bools, as in PyTorch") {
  const Tensor a = tensor<int64_t>({100'000, 1'000'000, -5, 7}), b = tensor<int64_t>({100'001, 1'000'011, 5, 7});
  CHECK(isclose(a, b).to_vector<bool>() == Bools{true, false, false, true});
  CHECK(isclose(a, b, 0, 11, true).to_vector<bool>() == Bools{true, true, true, true});
  CHECK(isclose(a.to(DType::int32), b.to(DType::int32), 0, 10).to_vector<bool>() == Bools{true, false, true, true});
  CHECK(isclose(tensor({1, 0}, DType::boolean), tensor({1, 1}, DType::boolean)).to_vector<bool>() ==
        Bools{true, false});
  CHECK(allclose(arange(3), arange(3)));
  // Without tolerances integers are compared exactly, also those that are equal in float64.
  const int64_t large = int64_t{1} << 53;
  CHECK_FALSE(allclose(tensor<int64_t>({large}), tensor<int64_t>({large + 1}), 0, 0));
  // The difference of the smallest and the largest integer does not wrap around.
  CHECK_FALSE(allclose(tensor<int64_t>({INT64_MIN}), tensor<int64_t>({INT64_MAX})));
  CHECK_THROWS_AS(isclose(arange(3), zeros({3})), DTypeError);
}

TEST_CASE("activations: at the ends, and gradients at NaN, as in PyTorch") {
  const auto leaky = [](double x) { return x > 0 ? x : 0.01 * x; };
  check_all("leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, leaky, kCorners);
  const auto steep = [](double x) { return x > 0 ? x : -2 * x; };
  check_all("leaky_relu", [](const Tensor& x) { return leaky_relu(x, -2); }, steep, kCorners);
  const auto exponential = [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); };
  check_all("elu", [](const Tensor& x) { return elu(x, 1.5); }, exponential, kCorners);
  check_all(
      "elu", [](const Tensor& x) { return elu(x); }, [](double x) { return x > 0 ? x : std::expm1(x); },
      {-1e-6, -1e-3, -0.1, -0.4, -20});
  const auto between = [](double x) { return x < -1 ? -1.0 : x > 1 ? 1.0 : x; };
  check_all("hardtanh", [](const Tensor& x) { return hardtanh(x); }, between, kCorners);
  const auto log_of_sigmoid = [](double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); };
  check_all("logsigmoid", [](const Tensor& x) { return logsigmoid(x); }, log_of_sigmoid,
            {-kInfinity, -700, -40, -1, -0.0, 0.0, 1, 3});

  const Doubles at = {kNan, 0, -0.0, -1, 1};
  CHECK(gradient([](const Tensor& x) { return leaky_relu(x, 0.25); }, at) == Doubles{0.25, 0.25, 0.25, 0.25, 1});
  CHECK(gradient([](const Tensor& x) { return hardtanh(x); }, at) == Doubles{1, 1, 1, 0, 0});
  CHECK(gradient([](const Tensor& x) { return elu(x); }, at) == Doubles{1, 1, 1, std::exp(-1), 1});
  CHECK(gradient([](const Tensor& x) { return elu(x, 2); }, at) == Doubles{1, 2, 2, 2 * std::exp(-1), 1});
}

TEST_CASE("softplus with a factor does not overflow, nor does its gradient") {
  const auto of = [](const Tensor& x) { return softplus(x, 10); };
  CHECK(values(of(tensor({1e38F, -1e38F, std::numeric_limits<float>::infinity()}))) == Doubles{1e38F, 0, kInfinity});
  CHECK(gradient(of, {1e308, -1e308, kInfinity, 0}) == Doubles{1, 0, 1, 0.5});
  CHECK(std::isnan(of(scalar(kNan)).item<float>()));
  CHECK_THROWS_WITH_AS(softplus(arange(3), 0.5, {"a.cpp", 7}),
                       "softplus: takes floating tensors, not int64; convert with to(DType::float32) (a.cpp:7)",
                       DTypeError);
}

TEST_CASE("activations: errors") {
  CHECK_THROWS_WITH_AS(hardtanh(ones({2}), 2, 1, {"a.cpp", 7}), "hardtanh: min 2 is above max 1 (a.cpp:7)",
                       ValueError);
  CHECK_THROWS_WITH_AS(glu(ones({2, 3}), -1, {"a.cpp", 7}),
                       "glu: dim -1 of x[2, 3] has size 3, and only an even one has two halves (a.cpp:7)",
                       ShapeError);
  CHECK_THROWS_AS(glu(ones({})), ShapeError);
  CHECK_THROWS_AS(leaky_relu(arange(3)), DTypeError);
  CHECK_THROWS_AS(elu(arange(3)), DTypeError);
  CHECK_THROWS_AS(hardtanh(arange(3)), DTypeError);
  CHECK_THROWS_WITH_AS(logsigmoid(arange(3), {"a.cpp", 7}),
                       "logsigmoid: takes floating tensors, not int64; convert with to(DType::float32) (a.cpp:7)",
                       DTypeError);
}
