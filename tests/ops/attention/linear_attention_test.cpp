#include <linnet/ops/attention/linear_attention.h>

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

/// Compares linear attention with its formula in float64 and its authors' code. Also tests properties of all
/// attentions.

using namespace linnet;
using namespace linnet::test;
using test::kInfinity;
using test::kNan;

namespace {

constexpr FastmaxForm kForms[] = {FastmaxForm::quadratic, FastmaxForm::factorised, FastmaxForm::reference};

double phi(double x) { return x > 0 ? x + 1 : std::exp(x); }

Tensor each(const Tensor& x, double (*f)(double)) {
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values) value = f(value);
  return tensor(values).reshape(x.shape());
}

/// The formula, weight by weight.
std::vector<double> reference(const Tensor& q, const Tensor& k, const Tensor& v, const Sees& sees) {
  return weighted_means(scores(each(q, phi), each(k, phi), 1), q.shape()[2], v, sees);
}

struct Qkv {
  Tensor q, k, v;
};

Qkv normal_qkv(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, m, d}, 2, dtype), normal({b, h, m, d}, 3, dtype)};
}

/// Gradients of q, k and v under a cotangent drawn from seed 4, and the output.
std::vector<Tensor> forward_backward(Qkv in, const LinearAttentionOptions& options) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = linear_attention(in.q, in.k, in.v, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

bool all_finite(const Tensor& x) {
  for (const double value : x.to_vector<double>()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("linear_attention is what its authors' code computes, in either form, with padding and step by step") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/linear.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  const auto heads = [&](const std::string& name) { return file.at(name).transpose(1, 2); };
  const auto error = [&](const Tensor& actual, const std::string& name) {
    return relative_error(actual, heads(name).contiguous().to_vector<double>());
  };
  for (const FastmaxForm form : kForms) {
    CAPTURE(static_cast<int>(form));
    Tensor q = heads("test.q").clone().set_requires_grad(), k = heads("test.k").clone().set_requires_grad(),
           v = heads("test.v").clone().set_requires_grad();
    const Tensor o = linear_attention(q, k, v, {.padding_mask = file.at("test.keep"), .form = form});
    CHECK(error(o, "test.output") < 1e-8);  // in rows of padding too
    const std::vector<Tensor> gradients = grad({o}, {q, k, v}, {.grad_outputs = {heads("test.cotangent")}});
    CHECK(error(gradients[0], "grad.q") < 1e-6);
    CHECK(error(gradients[1], "grad.k") < 1e-6);
    CHECK(error(gradients[2], "grad.v") < 1e-6);
    CHECK(error(linear_attention(q, k, v, {.causal = true, .form = form}), "steps.output") < 1e-6);
  }
}

TEST_CASE("linear_attention is the explicit formula, in every form") {
  for (const bool causal : {false, true}) {
    for (const auto& [n, m] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 5}, {64, 64}, {65, 65}, {600, 600}, {3, 70}, {70, 3}}) {
      CAPTURE(causal);
      CAPTURE(n);
      CAPTURE(m);
      const auto [q, k, v] = normal_qkv(2, 2, n, m, 5);
      const std::vector<double> expected = reference(q, k, v, sees(n, m, causal));
      for (const FastmaxForm form : kForms) {
        CHECK(relative_error(linear_attention(q, k, v, {.causal = causal, .form = form}), expected) < 1e-13);
      }
      CHECK(relative_error(linear_attention(q, k, v, {.causal = causal}), expected) < 1e-13);
    }
  }
}

TEST_CASE("linear_attention in float32 is as exact as its sums") {
  const auto [q, k, v] = normal_qkv(1, 2, 300, 300, 32, DType::float32);
  for (const bool causal : {false, true}) {
    for (const FastmaxForm form : kForms) {
      const Tensor o = linear_attention(q, k, v, {.causal = causal, .form = form});
      CHECK(o.dtype() == DType::float32);
      CHECK(relative_error(o, reference(q, k, v, sees(300, 300, causal))) < 1e-6);
    }
  }
}

TEST_CASE("linear_attention: gradients of the fused forms are those of the explicit weights, over many chunks") {
  const Tensor padding_mask = keep_all_but(1, 700, {{0, 0}, {0, 130}, {0, 131}, {0, 699}});
  for (const int64_t width : {2, 7, 32}) {  // with one feature, weights do not depend on it
    for (const LinearAttentionOptions& options :
         {LinearAttentionOptions{}, {.causal = true}, {.causal = true, .padding_mask = padding_mask}}) {
      const auto in = normal_qkv(1, 2, 700, 700, width);
      LinearAttentionOptions by_formula = options;
      by_formula.form = FastmaxForm::reference;
      const std::vector<Tensor> expected = forward_backward(in, by_formula);
      for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
        CAPTURE(width);
        CAPTURE(options.causal);
        CAPTURE(static_cast<int>(form));
        LinearAttentionOptions fused = options;
        fused.form = form;
        const std::vector<Tensor> results = forward_backward(in, fused);
        for (size_t i = 0; i < results.size(); ++i) {
          CAPTURE(i);
          CHECK(relative_error(results[i], expected[i].to_vector<double>()) < 1e-11);
        }
      }
    }
  }
}

TEST_CASE("linear_attention leaves out padded keys, whatever they hold; without keys it is 0 and has no gradient") {
  const auto in = normal_qkv(2, 2, 6, 6, 3);
  const Tensor padding_mask = keep_all_but(2, 6, {{0, 0}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for (const bool causal : {false, true}) {
    for (const FastmaxForm form : kForms) {
      CAPTURE(causal);
      CAPTURE(static_cast<int>(form));
      const LinearAttentionOptions options{.causal = causal, .padding_mask = padding_mask, .form = form};
      const std::vector<Tensor> expected = forward_backward(in, options);
      CHECK(relative_error(expected[3], reference(in.q, in.k, in.v, sees(6, 6, causal, padding_mask))) < 1e-13);
      for (const Tensor& x : expected) CHECK(sum(x.narrow(0, 1, 1) * x.narrow(0, 1, 1)).item<double>() == 0);
      for (const double value : {1e30, -1e30, kNan, kInfinity}) {
        CAPTURE(value);
        Qkv changed = in;
        changed.k = with_tokens(with_tokens(in.k, 0, 3, 4, value), 1, 0, 6, value);
        changed.v = with_tokens(with_tokens(in.v, 0, 3, 4, value), 1, 0, 6, value);
        check_same_bits(forward_backward(changed, options), expected);
      }
    }
  }
}

TEST_CASE("Causal linear_attention: the future changes no bit of the past") {
  for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
    const auto in = normal_qkv(1, 2, 150, 150, 24, DType::float32);
    const LinearAttentionOptions options{.causal = true, .form = form};
    const Tensor expected = linear_attention(in.q, in.k, in.v, options);
    for (const int64_t t : {1, 16, 63, 64, 149}) {
      for (const double value : {3.0, kNan, kInfinity}) {
        CAPTURE(t);
        CAPTURE(value);
        const Tensor o = linear_attention(with_tokens(in.q, 0, t, 150, value), with_tokens(in.k, 0, t, 150, value),
                                          with_tokens(in.v, 0, t, 150, value), options);
        CHECK(same_bits(o.narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  }
}

TEST_CASE("linear_attention does not care for the order of the keys") {
  const auto in = normal_qkv(1, 2, 90, 90, 8);
  Generator rng(5);
  const Tensor order = randperm(90, rng);
  for (const FastmaxForm form : kForms) {
    const Tensor o = linear_attention(in.q, in.k, in.v, {.form = form});
    const Tensor other =
        linear_attention(in.q, index_select(in.k, 2, order), index_select(in.v, 2, order), {.form = form});
    CHECK(relative_error(other, o.to_vector<double>()) < 1e-13);
  }
}

TEST_CASE("linear_attention and its gradients are the same for any number of threads") {
  const auto in = normal_qkv(3, 2, 1300, 1300, 16, DType::float32);
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
        Generator generator(11);
        check_threads_change_no_bit([&] {
          generator.set_state({11, 0});
          return forward_backward(in, {.causal = causal, .form = form, .dropout = dropout, .generator = &generator});
        });
      }
    }
  }
}

TEST_CASE("linear_attention stays finite and right where all features are small, or some are large") {
  const auto [q, k, v] = normal_qkv(1, 2, 70, 70, 4, DType::float32);
  const auto check = [&](double query, double key, double bound) {
    const Qkv moved{q + query, k + key, v};
    for (const bool causal : {false, true}) {
      for (const FastmaxForm form : kForms) {
        CAPTURE(query);
        CAPTURE(key);
        CAPTURE(causal);
        CAPTURE(static_cast<int>(form));
        const std::vector<Tensor> results = forward_backward(moved, {.causal = causal, .form = form});
        for (const Tensor& x : results) CHECK(all_finite(x));
        const auto floored = [](double x) { return std::max(phi(x), 1e-30); };
        const std::vector<double> expected =
            weighted_means(scores(each(moved.q, floored), each(moved.k, floored), 1), 70, v, sees(70, 70, causal));
        CHECK(relative_error(results[3], expected) < bound);
      }
    }
  };
  // An exponential of x is exact to the rounding of x, which is 100·2⁻²⁴ here.
  for (const double query : {-100.0, -60.0, 0.0, 1e4}) {
    for (const double key : {-100.0, -60.0, 0.0, 1e4}) check(query, key, 2e-5);
  }
  // All keys alike: the mean of the values.
  const Tensor same = full({1, 2, 70, 4}, -100.0);
  CHECK(relative_error(linear_attention(same, same, v),
                       mean(v.to(DType::float64), {2}, true).expand({1, 2, 70, 4}).to_vector<double>()) < 1e-5);
}

TEST_CASE("linear_attention drops whole queries and keys, the same in either form; the denominator keeps all") {
  const auto in = normal_qkv(2, 2, 150, 150, 6);
  const Tensor padding_mask = keep_all_but(2, 150, {{0, 2}, {1, 77}});
  for (const bool causal : {false, true}) {
    const auto results = [&](FastmaxForm form) {
      Generator generator(9);
      std::vector<Tensor> all = forward_backward(
          in,
          {.causal = causal, .padding_mask = padding_mask, .form = form, .dropout = 0.25, .generator = &generator});
      CHECK(generator.state().draws == 2);
      return all;
    };
    const std::vector<Tensor> quadratic = results(FastmaxForm::quadratic), other = results(FastmaxForm::factorised);
    for (size_t i = 0; i < other.size(); ++i) {
      CHECK(relative_error(other[i], quadratic[i].to_vector<double>()) < 1e-12);
    }
    // With dropout, a row of weights is multiplied by its keys' dropout factors, or is 0.
    const Tensor o = quadratic[3], row_sizes = sum(o * o, {3});
    int64_t dropped = 0;
    for (const double size : row_sizes.to_vector<double>()) dropped += size == 0 ? 1 : 0;
    CHECK(dropped > 600 * 0.15);
    CHECK(dropped < 600 * 0.35);
  }
}

TEST_CASE("Dropout leaves the expectation of linear_attention as it is") {
  const auto in = normal_qkv(1, 1, 4, 8, 3);
  Generator generator(10);
  Tensor total = zeros({1, 1, 4, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + linear_attention(in.q, in.k, in.v, {.dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, linear_attention(in.q, in.k, in.v).to_vector<double>()) < 0.05);
}

TEST_CASE("linear_attention_features: φ, its floor and its slope") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Tensor x = tensor({2.5, 1e-3, 0.0, -1e-3, -1.0, -60.0, -100.0, -kInfinity}).to(dtype).set_requires_grad();
    const Tensor y = linear_attention_features(x);
    const std::vector<double> values = y.to_vector<double>(), given = x.to_vector<double>();
    const std::vector<double> slopes = grad({sum(y)}, {x}).front().to_vector<double>();
    const double bound = dtype == DType::float32 ? 1e-5 : 1e-14;
    for (size_t i = 0; i < given.size(); ++i) {
      CAPTURE(given[i]);
      CHECK(values[i] == doctest::Approx(std::max(phi(given[i]), 1e-30)).epsilon(bound).scale(0));
      CHECK(std::abs(slopes[i] - (given[i] > 0 ? 1 : std::exp(given[i]))) <= bound);
    }
    CHECK(linear_attention_features(tensor({kInfinity}).to(dtype)).item<double>() == kInfinity);
    CHECK(std::isnan(linear_attention_features(tensor({kNan}).to(dtype)).item<double>()));
  }
  CHECK_THROWS_AS(linear_attention_features(ones({2}, DType::int64)), DTypeError);
}

TEST_CASE("linear_attention takes memory linear in the tokens") {
  const auto in = normal_qkv(1, 1, 4096, 4096, 8, DType::float32);
  const WithThreads with(1);
  for (const bool causal : {false, true}) {
    release_cached_memory();
    reset_peak_memory();
    const int64_t live = memory_stats().live;
    forward_backward(in, {.causal = causal});
    CHECK(memory_stats().peak - live < 4096 * 4096 * 4 / 10);
  }
}

TEST_CASE("linear_attention says what is wrong") {
  const auto [q, k, v] = normal_qkv(2, 3, 4, 5, 6);
  CHECK_THROWS_WITH_AS(linear_attention(q.reshape({6, 4, 6}), k, v, {}, {"a.cpp", 1}),
                       "linear_attention: q[6, 4, 6] has rank 3; [batch, heads, tokens, width] is needed (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(linear_attention(q, k.narrow(3, 0, 5), v, {}, {"a.cpp", 1}),
                       "linear_attention: q[2, 3, 4, 6] and k[2, 3, 5, 5] differ in width (6 ≠ 5); only the tokens "
                       "may differ (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(linear_attention(q, k.to(DType::float32), v), DTypeError);
  CHECK_THROWS_AS(linear_attention(q.to(DType::int64), k.to(DType::int64), v.to(DType::int64)), DTypeError);
  CHECK_THROWS_AS(linear_attention(q, k, v, {.padding_mask = ones({2, 5})}), DTypeError);
  CHECK_THROWS_AS(linear_attention(q, k, v, {.padding_mask = ones({2, 4}, DType::boolean)}), ShapeError);
  CHECK_THROWS_WITH_AS(linear_attention(q, k, v, {.dropout = 1.5}, {"a.cpp", 1}),
                       "linear_attention: dropout is 1.5; it must be in [0, 1] (a.cpp:1)", ValueError);
  Generator rng(1);
  CHECK_THROWS_WITH_AS(linear_attention(q, k, v, {.dropout = 1, .generator = &rng}, {"a.cpp", 1}),
                       "linear_attention: dropout is 1; it must be below 1 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(linear_attention(q, k, v, {.dropout = 0.1}, {"a.cpp", 1}),
                       "linear_attention: dropout 0.1 needs a generator; set options.generator (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      linear_attention(q, k, v, {.form = FastmaxForm::reference, .dropout = 0.1, .generator = &rng}, {"a.cpp", 1}),
      "linear_attention: dropout is 0.1, but the reference form has none; choose another form (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(linear_attention_weights(q, k.narrow(3, 0, 5)),
                       doctest::Contains("linear_attention_weights: q[2, 3, 4, 6] and k[2, 3, 5, 5] differ in width"),
                       ShapeError);
}
