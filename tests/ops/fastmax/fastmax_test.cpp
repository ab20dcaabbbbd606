#include <linnet/ops/fastmax/fastmax.h>

#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using namespace linnet::test;
using test::kInfinity;
using test::kNan;

namespace {

/// Eqs. 5–6.
Tensor standardised(const Tensor& x) {
  return div(sub(x, mean(x, {-1}, true)), sqrt(add(var(x, {-1}, 0, true), 1e-5)));
}

std::vector<double> reference(const Tensor& q, const Tensor& k, const Tensor& v,
                              const std::array<double, 3>& coefficients, double scale, const Sees& sees) {
  const auto score = scores(q, k, scale);
  return weighted_means(
      [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        const double s = score(b, h, i, j);
        return coefficients[0] + coefficients[1] * s + coefficients[2] * s * s;
      },
      q.shape()[2], v, sees);
}

struct Qkv {
  Tensor q, k, v;
};

Qkv normal_qkv(int64_t b, int64_t h, int64_t n, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), normal({b, h, n, d}, 3, dtype)};
}

std::vector<Tensor> forward_backward(Qkv in, const FastmaxOptions& options) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = fastmax(in.q, in.k, in.v, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

}  // namespace

TEST_CASE("fastmax is the explicit formula, for every scale") {
  const int64_t d = 6;
  const auto [q, k, v] = normal_qkv(2, 2, 70, d);
  const Tensor q_hat = standardised(q), k_hat = standardised(k);
  const std::array<double, 3> second{1, 1, 0.5}, first{1, 1, 0}, own{1.5, -0.7, 0.3};
  for (const bool causal : {false, true}) {
    const Sees all = sees(70, 70, causal);
    const auto check = [&](FastmaxOptions options, const std::array<double, 3>& coefficients, double scale) {
      options.causal = causal;
      CHECK(relative_error(fastmax(q, k, v, options), reference(q_hat, k_hat, v, coefficients, scale, all)) < 1e-13);
    };
    check({}, second, 1);
    check({.scale = FastmaxScale::paper}, second, 1);
    check({.scale = FastmaxScale::sqrt}, second, 1 / std::sqrt(6.0));
    check({.scale = FastmaxScale::unit}, second, 0.999 / 6);
    check({.scale = 0.25}, second, 0.25);
    check({.order = 1}, first, 0.999 / 6);
    check({.coefficients = own, .scale = 0.3}, own, 0.3);
    CHECK(relative_error(
              fastmax(q, k, v, {.normalisation = FastmaxNormalisation::none, .scale = 0.5, .causal = causal}),
              reference(q, k, v, second, 0.5, all)) < 1e-13);
  }
}

TEST_CASE("fastmax in float32 is as exact as its sums") {
  const auto [q, k, v] = normal_qkv(1, 2, 100, 32, DType::float32);
  const Tensor q_hat = standardised(q.to(DType::float64)), k_hat = standardised(k.to(DType::float64));
  const Tensor o = fastmax(q, k, v, {.causal = true});
  CHECK(relative_error(o, reference(q_hat, k_hat, v, {1, 1, 0.5}, 1, sees(100, 100, true))) < 1e-6);
}

TEST_CASE("fastmax leaves out padded keys, whatever they hold") {
  const auto in = normal_qkv(2, 2, 6, 3);
  const Tensor padding_mask = keep_all_but(2, 6, {{0, 0}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for (const bool causal : {false, true}) {
    const std::vector<Tensor> expected = forward_backward(in, {.causal = causal, .padding_mask = padding_mask});
    CHECK(relative_error(expected[3], reference(standardised(in.q), standardised(in.k), in.v, {1, 1, 0.5}, 1,
                                                sees(6, 6, causal, padding_mask))) < 1e-13);
    for (const Tensor& x : expected) CHECK(same_bits(x.narrow(0, 1, 1), zeros({1, 2, 6, 3}, DType::float64)));
    for (const double value : {1e30, kNan, kInfinity}) {
      Qkv changed = in;
      changed.k = with_tokens(with_tokens(in.k, 0, 3, 4, value), 1, 0, 6, value);
      changed.v = with_tokens(with_tokens(in.v, 0, 3, 4, value), 1, 0, 6, value);
      const std::vector<Tensor> results = forward_backward(changed, {.causal = causal, .padding_mask = padding_mask});
      for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
    }
  }
}

TEST_CASE("Causal fastmax: the future changes no bit of the past") {
  const auto in = normal_qkv(1, 2, 150, 24, DType::float32);
  const Tensor expected = fastmax(in.q, in.k, in.v, {.causal = true});
  for (const int64_t t : {1, 16, 63, 64, 149}) {
    for (const double value : {3.0, kNan, kInfinity}) {
      const Tensor o = fastmax(with_tokens(in.q, 0, t, 150, value), with_tokens(in.k, 0, t, 150, value),
                               with_tokens(in.v, 0, t, 150, value), {.causal = true});
      CHECK(same_bits(o.narrow(2, 0, t), expected.narrow(2, 0, t)));
    }
  }
}

TEST_CASE("fastmax refuses weights that may not be positive, naming the smallest") {
  const auto [q, k, v] = normal_qkv(1, 1, 4, 8);
  CHECK_THROWS_WITH_AS(fastmax(q, k, v, {.order = 1, .scale = FastmaxScale::paper}, {"a.cpp", 1}),
                       "fastmax: f(s) = 1 + 1·s + 0·s² can be as small as -7 for scores |s| ≤ 8, but weights "
                       "must be positive; use order "
                       "2, standard normalisation with FastmaxScale::unit, or other coefficients (a.cpp:1)",
                       ValueError);
  const auto refused = [&](const FastmaxOptions& options, const char* smallest) {
    try {
      fastmax(q, k, v, options);
      FAIL_CHECK("not refused: " << smallest);
    } catch (const ValueError& error) {
      CHECK(std::string(error.what()).find(std::string("as small as ") + smallest + " ") != std::string::npos);
    }
  };
  refused({.order = 1, .normalisation = FastmaxNormalisation::none}, "-inf");
  refused({.coefficients = {{1, 0, -0.25}}}, "-15");  // at either end
  refused({.coefficients = {{1, 2, 1}}}, "0");        // at its vertex, −1
  refused({.coefficients = {{0, 0, 0}}}, "0");
  refused({.coefficients = {{1, -1, 0}}, .scale = 0.25}, "-1");  // at s = 2
  refused({.coefficients = {{1, 1, 0}}, .scale = -0.25}, "-1");  // a negative scale has the same range
  CHECK_NOTHROW(fastmax(q, k, v, {.coefficients = {{1, 2, 1}}, .scale = 0.1}));  // scores do not reach the vertex
  CHECK_NOTHROW(fastmax(q, k, v, {.coefficients = {{1, 0, 0}}, .normalisation = FastmaxNormalisation::none}));

  CHECK_THROWS_WITH_AS(fastmax(q, k, v, {.order = 3}, {"a.cpp", 1}),
                       "fastmax: order is 3; it must be 1 or 2 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(fastmax(q, k, v, {.scale = kNan}, {"a.cpp", 1}),
                       "fastmax: scale is nan; it must be finite (a.cpp:1)", ValueError);
  CHECK_THROWS_AS(fastmax(q, k, v, {.coefficients = {{kNan, 0, 0}}}), ValueError);
  CHECK_THROWS_AS(fastmax(q.reshape({4, 8}), k, v), ShapeError);
  CHECK_THROWS_AS(fastmax(q, k, v.narrow(3, 0, 4)), ShapeError);
  CHECK_THROWS_AS(fastmax(q, k, v, {.padding_mask = ones({1, 5}, DType::boolean)}), ShapeError);
}

TEST_CASE("fastmax: queries and keys with an offset of a thousand deviations keep float32's gradients") {
  for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
    const Qkv f32 = normal_qkv(1, 2, 32, 16, DType::float32);
    const Qkv moved{f32.q + 1000, f32.k + 1000, f32.v};
    const Qkv f64{moved.q.to(DType::float64), moved.k.to(DType::float64), moved.v.to(DType::float64)};
    const std::vector<Tensor> rounded = forward_backward(moved, {.form = form}),
                              exact = forward_backward(f64, {.form = form});
    for (size_t i = 0; i < exact.size(); ++i) {
      CAPTURE(i);
      CAPTURE(static_cast<int>(form));
      const Tensor error = norm(rounded[i].to(DType::float64) - exact[i]) / norm(exact[i]);
      CHECK(error.item<double>() < 2e-6);
    }
  }
}
