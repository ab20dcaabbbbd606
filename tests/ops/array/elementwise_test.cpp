#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/activation.h>

#include "tests/support/values.h"

using namespace linnet;
using test::Bools;
using test::Doubles;
using test::Ints;
using test::kInfinity;
using test::kNan;
using test::uniform;
using test::values;

namespace {

/// d sum(f(x)) / dx
template <class F>
Doubles gradient(F f, const Tensor& at) {
  Tensor x = at.detach().set_requires_grad();
  return values(grad({sum(f(x))}, {x})[0]);
}

}  // namespace

// ---- Arithmetic ----

TEST_CASE("arithmetic: operators, numbers on either side") {
  const Tensor a = tensor({1, 2, 4}), b = tensor({2, 2, 8});
  CHECK(values(a + b) == Doubles{3, 4, 12});
  CHECK(values(a - b) == Doubles{-1, 0, -4});
  CHECK(values(a * b) == Doubles{2, 4, 32});
  CHECK(values(a / b) == Doubles{0.5, 1, 0.5});
  CHECK(values(-a) == Doubles{-1, -2, -4});
  CHECK(values(a + 1) == Doubles{2, 3, 5});
  CHECK(values(1 + a) == Doubles{2, 3, 5});
  CHECK(values(a - 1) == Doubles{0, 1, 3});
  CHECK(values(1 - a) == Doubles{0, -1, -3});
  CHECK(values(a * 2) == Doubles{2, 4, 8});
  CHECK(values(2 * a) == Doubles{2, 4, 8});
  CHECK(values(a / 2) == Doubles{0.5, 1, 2});
  CHECK(values(4 / a) == Doubles{4, 2, 1});
  CHECK(values(pow(a, 2)) == Doubles{1, 4, 16});
  CHECK(values(pow(2, a)) == Doubles{2, 4, 16});
}

TEST_CASE("arithmetic: integers stay integers, to 64 bits") {
  const Tensor big = tensor(Ints{int64_t{1} << 60});
  CHECK((big + 1).item<int64_t>() == (int64_t{1} << 60) + 1);
  CHECK((tensor({7, -3}, DType::int32) * 2).to_vector<int32_t>() == std::vector<int32_t>{14, -6});
  CHECK(values(abs(tensor({-3, 3}, DType::int64))) == Doubles{3, 3});
  CHECK_THROWS_AS(arange(3) / arange(3), DTypeError);
  CHECK_THROWS_AS(arange(3) * 0.5, DTypeError);
  CHECK(values(arange(3) * 2.0) == Doubles{0, 2, 4});
}

TEST_CASE("arithmetic: every layout of the operands") {
  // Long enough for several tasks and for the tails of vectors; compared with plain loops.
  const int64_t rows = 37, columns = 1031;
  const Tensor full = uniform({rows, columns}, 1);
  const Tensor row = uniform({columns}, 2), column = uniform({rows, 1}, 3), one = uniform({}, 4);
  const Tensor turned = uniform({columns, rows}, 5).transpose(0, 1);
  const Tensor skipping = uniform({rows, 2 * columns}, 6).slice(1, 0, 2 * columns, 2);
  const Doubles f = values(full), r = values(row), c = values(column), t = values(turned), s = values(skipping);
  const double o = one.item<double>();
  const Doubles by_row = values(full - row), from_row = values(row - full), by_column = values(full - column),
                from_column = values(column - full), by_one = values(full - one), by_turned = values(full - turned),
                by_skipping = values(skipping - turned), outer = values(column - row);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const size_t at = static_cast<size_t>(i * columns + j), ri = static_cast<size_t>(j),
                   ci = static_cast<size_t>(i);
      REQUIRE(by_row[at] == f[at] - r[ri]);
      REQUIRE(from_row[at] == r[ri] - f[at]);
      REQUIRE(by_column[at] == f[at] - c[ci]);
      REQUIRE(from_column[at] == c[ci] - f[at]);
      REQUIRE(by_one[at] == f[at] - o);
      REQUIRE(by_turned[at] == f[at] - t[at]);
      REQUIRE(by_skipping[at] == s[at] - t[at]);
      REQUIRE(outer[at] == c[ci] - r[ri]);
    }
  }
}

TEST_CASE("arithmetic: many dims, none of which can be joined") {
  const Tensor x = test::counting({2, 3, 2, 3, 2, 3, 2, 3});
  const Tensor y = x.permute({7, 0, 6, 1, 5, 2, 4, 3});
  CHECK(values(y + y) == values(2 * y.contiguous()));
}

TEST_CASE("arithmetic: errors name shapes and dtypes, and the user's line") {
  const Tensor a = zeros({2, 3}), b = zeros({4});
  CHECK_THROWS_AS(add(a, b), ShapeError);
  CHECK_THROWS_WITH_AS(add(a, zeros({3}, DType::float64), {"a.cpp", 7}),
                       "add: dtypes differ: float32[2, 3] and float64[3]; convert one with to(DType) (a.cpp:7)",
                       DTypeError);
  std::string message;
  const int line = __LINE__ + 2;
  try {
    a* b;
  } catch (const ShapeError& error) {
    message = error.what();
  }
  CHECK(message.find("mul: ") == 0);
  CHECK(message.find("[2, 3]") != std::string::npos);
  CHECK(message.find("[4]") != std::string::npos);
  CHECK(message.find("(elementwise_test.cpp:" + std::to_string(line) + ")") != std::string::npos);
  CHECK_THROWS_AS(neg(ones({2}, DType::boolean)), DTypeError);
  CHECK_THROWS_AS(add(ones({2}, DType::boolean), ones({2}, DType::boolean)), DTypeError);
}

TEST_CASE("arithmetic: maximum and minimum carry NaN and share ties") {
  const Tensor a = tensor({1, kNan, 3, kNan}), b = tensor({2, 1, kNan, kNan});
  const Doubles high = values(maximum(a, b)), low = values(minimum(a, b));
  CHECK(high[0] == 2);
  CHECK(low[0] == 1);
  for (size_t i = 1; i < 4; ++i) {
    CHECK(std::isnan(high[i]));
    CHECK(std::isnan(low[i]));
  }
  CHECK(gradient([](const Tensor& x) { return maximum(x, 1); }, tensor({0, 1, 2})) == Doubles{0, 0.5, 1});
  CHECK(gradient([](const Tensor& x) { return minimum(x, 1); }, tensor({0, 1, 2})) == Doubles{1, 0.5, 0});
  // If one is NaN, both get the whole gradient, as in PyTorch.
  for (const bool larger : {true, false}) {
    const auto either = [larger](const Tensor& x, const Tensor& y) { return larger ? maximum(x, y) : minimum(x, y); };
    CHECK(gradient([&](const Tensor& x) { return either(x, tensor({kNan, 1, kNan})); }, tensor({1, kNan, kNan})) ==
          Doubles{1, 1, 1});
    CHECK(gradient([&](const Tensor& y) { return either(tensor({kNan, 1, kNan}), y); }, tensor({1, kNan, kNan})) ==
          Doubles{1, 1, 1});
  }
}

TEST_CASE("arithmetic: gradients of pow at its corners") {
  const auto by_base = [](double b) { return gradient([b](const Tensor& a) { return pow(a, b); }, tensor({0}))[0]; };
  CHECK(by_base(0) == 0);
  CHECK(by_base(1) == 1);
  CHECK(by_base(2) == 0);
  CHECK(gradient([](const Tensor& b) { return pow(0, b); }, tensor({2}))[0] == 0);
  CHECK(gradient([](const Tensor& a) { return pow(a, 3); }, tensor({-2}))[0] == 12);
}

TEST_CASE("arithmetic: a backward keeps only what a gradient needs") {
  Tensor x = ones({1000}, DType::float64).set_requires_grad();
  const int64_t before = memory_stats().live;
  Tensor y = x * 2;
  y = y + 1;
  CHECK(memory_stats().live - before < 2 * 1000 * 8);  // y, and one or two numbers; neither x·2 nor a copy of x
}

// ---- Comparisons and choices ----

TEST_CASE("compare: all six, with NaN, broadcast, numbers") {
  const Tensor a = tensor({1, 2, 3, kNan}), b = tensor({2, 2, 2, kNan});
  CHECK(eq(a, b).to_vector<bool>() == Bools{false, true, false, false});
  CHECK(ne(a, b).to_vector<bool>() == Bools{true, false, true, true});
  CHECK(lt(a, b).to_vector<bool>() == Bools{true, false, false, false});
  CHECK(le(a, b).to_vector<bool>() == Bools{true, true, false, false});
  CHECK(gt(a, b).to_vector<bool>() == Bools{false, false, true, false});
  CHECK(ge(a, b).to_vector<bool>() == Bools{false, true, true, false});
  CHECK(gt(a, 2).to_vector<bool>() == gt(a, b).to_vector<bool>());
  CHECK(isnan(a).to_vector<bool>() == Bools{false, false, false, true});
  CHECK(lt(arange(2).unsqueeze(1), arange(2)).to_vector<bool>() == Bools{false, true, false, false});
  CHECK(eq(tensor(Bools{true, false}), true).to_vector<bool>() == Bools{true, false});
  CHECK_THROWS_AS(eq(a, arange(4)), DTypeError);
  CHECK_THROWS_AS(lt(arange(4), 0.5), DTypeError);
}

TEST_CASE("compare: a mask made of what requires a gradient, inside of a model") {
  const auto leaky = [](const Tensor& x) { return linnet::where(gt(x, 0), x, x * 0.25); };
  CHECK(gradient(leaky, tensor({-2, 3}, DType::float64)) == Doubles{0.25, 1});
  const Tensor x = tensor({-2, 3}).set_requires_grad();
  CHECK_FALSE(eq(x, x).requires_grad());
  CHECK_FALSE(x.to(DType::int32).requires_grad());
}

TEST_CASE("compare: logic takes bool") {
  const Tensor p = tensor(Bools{false, false, true, true}), q = tensor(Bools{false, true, false, true});
  CHECK(logical_not(p).to_vector<bool>() == Bools{true, true, false, false});
  CHECK(logical_and(p, q).to_vector<bool>() == Bools{false, false, false, true});
  CHECK(logical_or(p, q).to_vector<bool>() == Bools{false, true, true, true});
  CHECK(logical_xor(p, q).to_vector<bool>() == Bools{false, true, true, false});
  CHECK(logical_xor(p.unsqueeze(1), tensor(Bools{true})).shape() == Shape{4, 1});
  CHECK_THROWS_WITH_AS(logical_xor(p, ones({4}), {"a.cpp", 7}),
                       "logical_xor: b is float32, not bool; ne(x, 0) is true where x is not 0 (a.cpp:7)",
                       DTypeError);
  CHECK_THROWS_WITH_AS(logical_and(p, ones({4}), {"a.cpp", 7}),
                       "logical_and: b is float32, not bool; ne(x, 0) is true where x is not 0 (a.cpp:7)",
                       DTypeError);
}

TEST_CASE("compare: a number beside a bool is 0 or 1") {
  const Tensor p = tensor(Bools{false, true});
  CHECK(eq(p, 1).to_vector<bool>() == Bools{false, true});
  CHECK(lt(p, true).to_vector<bool>() == Bools{true, false});
  CHECK(masked_fill(p, p, 0).to_vector<bool>() == Bools{false, false});
  CHECK_THROWS_WITH_AS(
      eq(p, 2, {"a.cpp", 7}),
      "eq: the number 2 does not fit bool, which is 0 or 1; convert x with to(DType::int64) (a.cpp:7)", DTypeError);
  CHECK_THROWS_AS(lt(p, 0.5), DTypeError);
  CHECK_THROWS_AS(gt(p, -1), DTypeError);
  CHECK_THROWS_AS(ne(p, kNan), DTypeError);
}

TEST_CASE("compare: where and masked_fill") {
  const Tensor c = tensor(Bools{true, false, true});
  CHECK(values(where(c, tensor({1, 2, 3}), tensor({4, 5, 6}))) == Doubles{1, 5, 3});
  CHECK(values(where(c, 9, tensor({4, 5, 6}))) == Doubles{9, 5, 9});
  CHECK(values(where(c, tensor({4, 5, 6}), 9)) == Doubles{4, 9, 6});
  CHECK(values(where(c.unsqueeze(1), tensor({1, 2}), tensor({-1, -2}))) == Doubles{1, 2, -1, -2, 1, 2});
  CHECK(values(masked_fill(ones({2, 3}), c, -kInfinity)) ==
        Doubles{-kInfinity, 1, -kInfinity, -kInfinity, 1, -kInfinity});
  CHECK(where(c, arange(3), 0).to_vector<int64_t>() == Ints{0, 0, 2});
  // Elements that are not selected do not affect the gradient, not even as 0·∞.
  CHECK(gradient([&](const Tensor& x) { return masked_fill(x, c, 0); }, tensor({1, 2, 3})) == Doubles{0, 1, 0});
  CHECK_THROWS_AS(where(tensor({1, 0, 1}), ones({3}), ones({3})), DTypeError);
  CHECK_THROWS_AS(where(c, ones({3}), arange(3)), DTypeError);
  CHECK_THROWS_WITH_AS(masked_fill(ones({3}), zeros({2, 3}, DType::boolean), 0, {"a.cpp", 7}),
                       "masked_fill: mask[2, 3] does not broadcast to x[3]; expand x first (a.cpp:7)", ShapeError);
}

// ---- Functions ----

TEST_CASE("functions: values in both dtypes") {
  const Doubles at = {-2.5, -1, -0.3, 0, 0.3, 1, 2.5};
  const auto check = [&](auto op, auto exact) {
    const Doubles wide = values(op(tensor(at)));
    const Doubles narrow = values(op(tensor(at).to(DType::float32)));
    for (size_t i = 0; i < at.size(); ++i) {
      CHECK(std::abs(wide[i] - exact(at[i])) <= 4e-16 * std::max(1.0, std::abs(exact(at[i]))));
      CHECK(std::abs(narrow[i] - exact(at[i])) <= 4e-7 * std::max(1.0, std::abs(exact(at[i]))));
    }
  };
  check([](auto x) { return exp(x); }, [](double x) { return std::exp(x); });
  check([](auto x) { return log(exp(x)); }, [](double x) { return x; });
  check([](auto x) { return sqrt(abs(x)); }, [](double x) { return std::sqrt(std::abs(x)); });
  check([](auto x) { return rsqrt(abs(x) + 1); }, [](double x) { return 1 / std::sqrt(std::abs(x) + 1); });
  check([](auto x) { return sin(x); }, [](double x) { return std::sin(x); });
  check([](auto x) { return cos(x); }, [](double x) { return std::cos(x); });
  check([](auto x) { return square(x); }, [](double x) { return x * x; });
  check([](auto x) { return reciprocal(x + 5); }, [](double x) { return 1 / (x + 5); });
  check([](auto x) { return erf(x); }, [](double x) { return std::erf(x); });
  check([](auto x) { return sign(x); }, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
  check([](auto x) { return tanh(x); }, [](double x) { return std::tanh(x); });
  check([](auto x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
  check([](auto x) { return relu(x); }, [](double x) { return std::max(x, 0.0); });
  check([](auto x) { return silu(x); }, [](double x) { return x / (1 + std::exp(-x)); });
  check([](auto x) { return gelu(x); }, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); });
  check([](auto x) { return gelu(x, Gelu::tanh); },
        [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); });
  check([](auto x) { return softplus(x); }, [](double x) { return std::log1p(std::exp(x)); });
  check([](auto x) { return leaky_relu(x, 0.2); }, [](double x) { return x > 0 ? x : 0.2 * x; });
  check([](auto x) { return elu(x, 1.5); }, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); });
  check([](auto x) { return hardtanh(x, -0.5, 2); }, [](double x) { return std::min(std::max(x, -0.5), 2.0); });
  check([](auto x) { return logsigmoid(x); }, [](double x) { return -std::log1p(std::exp(-x)); });
  check([](auto x) { return softplus(x, 3); }, [](double x) { return std::log1p(std::exp(3 * x)) / 3; });
  check([](auto x) { return pow(abs(x), 1.7); }, [](double x) { return std::pow(std::abs(x), 1.7); });
}

TEST_CASE("functions: clamp") {
  const Tensor x = tensor({-2, 0, 1, 3, kNan});
  CHECK(values(clamp(x.narrow(0, 0, 4), 0, 1)) == Doubles{0, 0, 1, 1});
  CHECK(values(clamp(x.narrow(0, 0, 4), {}, 1)) == Doubles{-2, 0, 1, 1});
  CHECK(std::isnan(values(clamp(x, 0, 1))[4]));
  CHECK(gradient([](const Tensor& t) { return clamp(t, 0, 1); }, tensor({-2, 0, 1, 3})) == Doubles{0, 1, 1, 0});
  CHECK(clamp(arange(5), 1, 3).to_vector<int64_t>() == Ints{1, 1, 2, 3, 3});
  CHECK_THROWS_WITH_AS(clamp(x, 2, 1, {"a.cpp", 7}), "clamp: min 2 is above max 1 (a.cpp:7)", ValueError);
  CHECK_THROWS_AS(clamp(x, {}), ValueError);
}

TEST_CASE("functions: gradients at kinks, as documented") {
  CHECK(gradient([](const Tensor& x) { return abs(x); }, tensor({-1, 0, 1})) == Doubles{-1, 0, 1});
  CHECK(gradient([](const Tensor& x) { return relu(x); }, tensor({-1, 0, 1, kNan})) == Doubles{0, 0, 1, 1});
  CHECK(gradient([](const Tensor& x) { return clamp(x, -1, 1); }, tensor({-2, -1, 1, 2, kNan})) ==
        Doubles{0, 1, 1, 0, 0});
  CHECK(std::isnan(gradient([](const Tensor& x) { return abs(x); }, tensor({kNan}))[0]));
  CHECK(gradient([](const Tensor& x) { return sign(x); }, tensor({-1, 0, 1})) == Doubles{0, 0, 0});
}

TEST_CASE("functions: integers are refused where the result is not one") {
  CHECK_THROWS_WITH_AS(exp(arange(3), {"a.cpp", 7}),
                       "exp: takes floating tensors, not int64; convert with to(DType::float32) (a.cpp:7)",
                       DTypeError);
  CHECK_THROWS_AS(gelu(arange(3)), DTypeError);
  CHECK_THROWS_AS(pow(arange(3), arange(3)), DTypeError);
  CHECK_THROWS_AS(softplus(ones({2}), 0), ValueError);
}

TEST_CASE("elementwise: conversion of dtypes") {
  CHECK(tensor({0, 2, -1.7}).to(DType::boolean).to_vector<bool>() == Bools{false, true, true});
  CHECK(tensor({2.7, -1.7}).to(DType::int32).to_vector<int32_t>() == std::vector<int32_t>{2, -1});
  CHECK(values(tensor(Bools{true, false}).to(DType::float32)) == Doubles{1, 0});
}

TEST_CASE("second derivatives of gelu are 0 far from 0, and NaN only at NaN") {
  for (const Gelu kind : {Gelu::erf, Gelu::tanh}) {
    Tensor x = tensor({1e4, 1e10, -1e25, 3e38, kNan});
    x.set_requires_grad();
    const Tensor first = grad({sum(gelu(x, kind))}, {x}, {.create_graph = true})[0];
    const std::vector<double> second = grad({sum(first)}, {x})[0].to_vector<double>();
    for (size_t i = 0; i < 4; ++i) CHECK(second[i] == 0);
    CHECK(std::isnan(second[4]));
  }
}

TEST_CASE("pow: the gradient by the exponent at a base of 0") {
  const auto by_exponent = [](double base, double exponent) {
    Tensor b = scalar(exponent, DType::float64);
    b.set_requires_grad();
    return grad({pow(scalar(base, DType::float64), b)}, {b})[0].item<double>();
  };
  CHECK(by_exponent(0.0, -1) == -kInfinity);
  CHECK(by_exponent(-0.0, -1) == kInfinity);
  CHECK(by_exponent(0.0, 0) == 0);
  CHECK(by_exponent(0.0, 2) == 0);
}

TEST_CASE("pow: the mixed second derivative where the exponent is 0") {
  const auto mixed = [](double base, double cotangent = 1) {
    Tensor a = scalar(base, DType::float64), b = scalar(0, DType::float64);
    a.set_requires_grad();
    b.set_requires_grad();
    const Tensor by_base =
        grad({pow(a, b)}, {a}, {.grad_outputs = {scalar(cotangent, DType::float64)}, .create_graph = true})[0];
    CHECK(by_base.item<double>() == 0);
    return grad({by_base}, {b})[0].item<double>();
  };
  CHECK(mixed(2) == 0.5);
  CHECK(mixed(0.25, 3) == 12);
  for (const double base : {0.0, 1e-320}) CHECK(mixed(base) == 0);  // not 0·∞
  for (const double base : {kInfinity, kNan}) mixed(base);
  mixed(2, kInfinity);
}
