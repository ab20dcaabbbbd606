#include <linnet/ops/attention/attention.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using namespace linnet::test;
using test::kInfinity;
using test::kNan;

namespace {

std::vector<double> softmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                      const Sees& sees) {
  // Every score minus the largest of all, which changes all weights of a row by the same factor.
  const auto score = scores(q, k, scale);
  return weighted_means(
      [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        double largest = -kInfinity;
        for (int64_t other = 0; other < k.shape()[2]; ++other) {
          if (sees(b, i, other)) largest = std::max(largest, score(b, h, i, other));
        }
        return std::exp(score(b, h, i, j) - largest);
      },
      q.shape()[2], v, sees);
}

struct Qkv {
  Tensor q, k, v;
};

Qkv normal_qkv(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, m, d}, 2, dtype), normal({b, h, m, d}, 3, dtype)};
}

/// Output and gradients under a cotangent drawn from seed 4.
std::vector<Tensor> forward_backward(Qkv in, const SoftmaxAttentionOptions& options) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = softmax_attention(in.q, in.k, in.v, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

}  // namespace

TEST_CASE("softmax_attention is the explicit formula") {
  for (const bool causal : {false, true}) {
    for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {15, 15}, {16, 16}, {17, 17}, {64, 64}, {65, 65}, {130, 130}, {3, 70}, {70, 3}}) {
      CAPTURE(causal);
      CAPTURE(n);
      CAPTURE(m);
      const auto [q, k, v] = normal_qkv(2, 2, n, m, 5);
      const Tensor o = softmax_attention(q, k, v, {.causal = causal});
      CHECK(relative_error(o, softmax_reference(q, k, v, 1 / std::sqrt(5.0), sees(n, m, causal))) < 1e-14);
    }
  }
}

TEST_CASE("softmax_attention and its gradients are those of the explicit weights, for keys in many tiles and parts") {
  const Tensor padding_mask = keep_all_but(1, 300, {{0, 0}, {0, 130}, {0, 131}, {0, 299}});
  for (const int64_t width : {1, 7, 16, 24, 33, 63}) {
    for (const int64_t queries : {3, 70, 300}) {
      for (const SoftmaxAttentionOptions& options :
           {SoftmaxAttentionOptions{}, {.causal = true}, {.causal = true, .padding_mask = padding_mask}}) {
        CAPTURE(width);
        CAPTURE(queries);
        CAPTURE(options.causal);
        const auto in = normal_qkv(1, 1, queries, 300, width);
        const std::vector<Tensor> results = forward_backward(in, options);
        Qkv leaf{in.q.clone(), in.k.clone(), in.v.clone()};
        for (Tensor* x : {&leaf.q, &leaf.k, &leaf.v}) x->set_requires_grad();
        const Tensor o = matmul(softmax_attention_weights(leaf.q, leaf.k, options), leaf.v);
        std::vector<Tensor> expected =
            grad({o}, {leaf.q, leaf.k, leaf.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
        expected.push_back(o.detach());
        for (size_t i = 0; i < results.size(); ++i) {
          CHECK(relative_error(results[i], expected[i].to_vector<double>()) < 1e-13);
        }
      }
    }
  }
}

TEST_CASE("softmax_attention in float32 is as exact as its sums") {
  const auto [q, k, v] = normal_qkv(1, 2, 100, 100, 32, DType::float32);
  for (const bool causal : {false, true}) {
    const Tensor o = softmax_attention(q, k, v, {.causal = causal});
    CHECK(o.dtype() == DType::float32);
    CHECK(relative_error(o, softmax_reference(q, k, v, 1 / std::sqrt(32.0), sees(100, 100, causal))) < 1e-6);
  }
}

TEST_CASE("softmax_attention stays finite and right at scores of ±80 and beyond") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    auto [q, k, v] = normal_qkv(1, 1, 20, 20, 1, dtype);
    for (const double scale : {80.0, -80.0, 1000.0}) {
      const Tensor o = softmax_attention(q, k, v, {.causal = true, .scale = scale});
      const double bound = dtype == DType::float64 ? 1e-12 : 1e-4;  // scores have a relative error of 1e-7
      CHECK(relative_error(o, softmax_reference(q, k, v, scale, sees(20, 20, true))) < bound);
    }
  }
}

TEST_CASE("softmax_attention in float32: each weight is as exact as its score") {
  // With keys 0 and x, values 0 and 1, the output is the second weight, 1 / (1 + e^−x).
  std::vector<float> keys, values;
  for (double x = -86; x < 86; x += 0.013) {
    keys.insert(keys.end(), {0, static_cast<float>(x)});
    values.insert(values.end(), {0, 1});
  }
  const auto count = static_cast<int64_t>(keys.size() / 2);
  const Tensor k = tensor(keys).reshape({count, 1, 2, 1}), v = tensor(values).reshape({count, 1, 2, 1});
  const std::vector<float> o = softmax_attention(ones({count, 1, 1, 1}), k, v, {.scale = 1.0}).to_vector<float>();
  double worst = 0;  // as a multiple of the allowed rounding of the scale's factor, the score, and the later steps
  for (size_t i = 0; i < o.size(); ++i) {
    const double x = keys[2 * i + 1], exact = 1 / (1 + std::exp(-x));
    worst = max_or_nan(worst, std::abs(o[i] - exact) / (exact * (2 * std::abs(x) + 4) * 0x1p-24));
  }
  CHECK(worst < 1);
  const Tensor far = tensor({0.0f, -200.0f, 0.0f, -std::numeric_limits<float>::infinity()}).reshape({2, 1, 2, 1});
  CHECK(softmax_attention(ones({2, 1, 1, 1}), far, v.narrow(0, 0, 2), {.scale = 1.0}).to_vector<float>() ==
        std::vector<float>{0, 0});
}

TEST_CASE("softmax_attention leaves out padded keys, and rows with nothing left are 0 without gradient") {
  const auto in = normal_qkv(2, 2, 6, 6, 3);
  const Tensor padding_mask = keep_all_but(2, 6, {{0, 0}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for (const bool causal : {false, true}) {
    const std::vector<Tensor> results = forward_backward(in, {.causal = causal, .padding_mask = padding_mask});
    const Tensor& o = results[3];
    CHECK(relative_error(
              o, softmax_reference(in.q, in.k, in.v, 1 / std::sqrt(3.0), sees(6, 6, causal, padding_mask))) < 1e-14);
    for (const Tensor& x : results) CHECK(same_bits(x.narrow(0, 1, 1), zeros({1, 2, 6, 3}, DType::float64)));
    if (causal) CHECK(same_bits(o.narrow(0, 0, 1).narrow(2, 0, 1), zeros({1, 2, 1, 3}, DType::float64)));
  }
}

TEST_CASE("softmax_attention: a query whose scores are all -inf has the result 0, and no gradient") {
  for (const int64_t n : {4, 150}) {
    for (const bool causal : {false, true}) {
      // Every second query has the scores −∞, and the others 0.5.
      Tensor q = zeros({1, 1, n, 2}, DType::float64), k = full({1, 1, n, 2}, 0.5, DType::float64);
      k.select(3, 0).fill_(-1e200);
      for (int64_t i = 0; i < n; ++i) q[{0, 0, i, i % 2}] = i % 2 == 0 ? 1e200 : 1;
      Tensor v = ones({1, 1, n, 2}, DType::float64);
      for (Tensor* each : {&q, &k, &v}) each->set_requires_grad();
      const Tensor o = softmax_attention(q, k, v, {.causal = causal, .scale = 1});
      const std::vector<Tensor> gradients = grad({o.sum()}, {q, k, v});
      for (int64_t i = 0; i < n; ++i) CHECK(o[{0, 0, i, 1}].item() == doctest::Approx(static_cast<double>(i % 2)));
      CHECK(gradients[0].select(2, 0).abs().max().item() == 0);
      for (const Tensor& gradient : gradients) CHECK(std::isfinite(gradient.sum().item()));
      CHECK(gradients[2].select(3, 0).sum().item() == doctest::Approx(static_cast<double>(n) / 2));
    }
  }
}

TEST_CASE("What padded keys hold changes no bit of softmax_attention or of its gradients") {
  const auto in = normal_qkv(2, 2, 70, 70, 3);
  const Tensor padding_mask = keep_all_but(2, 70, {{0, 68}, {0, 69}, {1, 0}, {1, 1}});
  for (const bool causal : {false, true}) {
    const SoftmaxAttentionOptions options{.causal = causal, .padding_mask = padding_mask};
    const std::vector<Tensor> expected = forward_backward(in, options);
    for (const double value : {1e30, kNan, kInfinity}) {
      Qkv changed = in;
      changed.k = with_tokens(with_tokens(in.k, 0, 68, 70, value), 1, 0, 2, value);
      changed.v = with_tokens(with_tokens(in.v, 0, 68, 70, value), 1, 0, 2, value);
      const std::vector<Tensor> results = forward_backward(changed, options);
      for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
    }
  }
}

TEST_CASE("Padding added to softmax_attention changes nothing else") {
  const auto in = normal_qkv(2, 2, 20, 20, 3);
  const Qkv shorter{in.q, in.k.narrow(2, 0, 17), in.v.narrow(2, 0, 17)};
  const Tensor padding_mask = keep_all_but(2, 20, {{0, 17}, {0, 18}, {0, 19}, {1, 17}, {1, 18}, {1, 19}});
  const Tensor padded = softmax_attention(in.q, in.k, in.v, {.padding_mask = padding_mask});
  CHECK(relative_error(padded, softmax_attention(shorter.q, shorter.k, shorter.v).to_vector<double>()) < 1e-14);
}

TEST_CASE("Causal softmax_attention: the future changes no bit of the past") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const auto in = normal_qkv(1, 2, 150, 150, 24, dtype);
    const Tensor expected = softmax_attention(in.q, in.k, in.v, {.causal = true});
    for (const int64_t t : {1, 7, 16, 63, 64, 100, 149}) {
      for (const double value : {3.0, kNan, kInfinity}) {
        CAPTURE(t);
        CAPTURE(value);
        const Tensor o = softmax_attention(with_tokens(in.q, 0, t, 150, value), with_tokens(in.k, 0, t, 150, value),
                                           with_tokens(in.v, 0, t, 150, value), {.causal = true});
        CHECK(same_bits(o.narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  }
}

TEST_CASE("softmax_attention does not care for the order of the keys") {
  const auto in = normal_qkv(1, 2, 9, 9, 4);
  const auto swapped = [](const Tensor& x) { return concat({x.narrow(2, 4, 5), x.narrow(2, 0, 4)}, 2); };
  const Tensor o = softmax_attention(in.q, in.k, in.v);
  CHECK(relative_error(softmax_attention(in.q, swapped(in.k), swapped(in.v)), o.to_vector<double>()) < 1e-14);
  CHECK(relative_error(softmax_attention(swapped(in.q), in.k, in.v), swapped(o).to_vector<double>()) < 1e-14);
}

TEST_CASE(
    "softmax_attention takes the heads of a fused projection in place, and gives heads that join without a "
    "copy") {
  const int64_t b = 2, n = 10, h = 3, d = 4, c = h * d;
  const Tensor qkv = normal({b, n, 3 * c}, 5);
  const auto heads = [&](int64_t i) { return qkv.narrow(2, i * c, c).reshape({b, n, h, d}).transpose(1, 2); };
  const Qkv strided{heads(0), heads(1), heads(2)};
  const Qkv dense{heads(0).contiguous(), heads(1).contiguous(), heads(2).contiguous()};
  for (const bool causal : {false, true}) {
    const std::vector<Tensor> a = forward_backward(strided, {.causal = causal});
    const std::vector<Tensor> e = forward_backward(dense, {.causal = causal});
    for (size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], e[i]));
    CHECK(a[3].transpose(1, 2).is_contiguous());
  }
  // One key for all queries, by a stride of 0, and swapped dims: these inputs must be copied, not misread.
  const Tensor one_key = normal({b, h, 1, d}, 6).expand({b, h, n, d});
  const Tensor turned = normal({b, h, d, n}, 7).transpose(2, 3);
  CHECK(same_bits(softmax_attention(strided.q, one_key, turned),
                  softmax_attention(strided.q, one_key.clone(), turned.clone())));
}

TEST_CASE("softmax_attention drops weights after normalisation, by the generator's words") {
  for (const int64_t n : {5, 150}) {
    const auto in = normal_qkv(2, 2, n, n, n);
    const Tensor identity = eye(n, -1, DType::float64).expand({2, 2, n, n});  // so that outputs are weights
    const Tensor padding_mask = keep_all_but(2, n, {{0, 2}});
    const std::vector<double> weights =
        softmax_attention(in.q, in.k, identity, {.causal = true, .padding_mask = padding_mask}).to_vector<double>();
    Generator generator(9);
    const RandomKey key = Generator(9).next();
    const std::vector<double> dropped =
        softmax_attention(in.q, in.k, identity,
                          {.causal = true, .padding_mask = padding_mask, .dropout = 0.25, .generator = &generator})
            .to_vector<double>();
    CHECK(generator.state().draws == 1);
    double error = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double factor = random_word(key, i) < keep_threshold(0.75) ? 1 / 0.75 : 0;
      error = max_or_nan(error, std::abs(dropped[i] - factor * weights[i]));
    }
    CHECK(error < 1e-14);
    CHECK(same_bits(softmax_attention(in.q, in.k, in.v, {.dropout = 1, .generator = &generator}),
                    zeros(in.q.shape(), DType::float64)));
  }
}

TEST_CASE("Dropout leaves the expectation of softmax_attention as it is") {
  const auto in = normal_qkv(1, 1, 4, 8, 3);
  Generator generator(10);
  Tensor total = zeros({1, 1, 4, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + softmax_attention(in.q, in.k, in.v, {.dropout = 0.3, .generator = &generator});
  }
  const std::vector<double> expected = softmax_attention(in.q, in.k, in.v).to_vector<double>();
  CHECK(relative_error(total / kDraws, expected) < 0.03);  // one draw is off by about 0.7, their mean by 0.7 / √4000
}

TEST_CASE("softmax_attention and its gradients are the same for any number of threads") {
  const auto in = normal_qkv(3, 2, 130, 130, 16, DType::float32);
  Generator generator(11);
  check_threads_change_no_bit([&] {
    generator.set_state({11, 0});
    return forward_backward(in, {.causal = true, .dropout = 0.1, .generator = &generator});
  });
}

TEST_CASE("softmax_attention needs memory linear in the tokens") {
  const auto in = normal_qkv(1, 1, 4096, 4096, 8, DType::float32);
  const WithThreads with(1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  forward_backward(in, {.causal = true});
  CHECK(memory_stats().peak - live < 4096 * 4096 * 4 / 10);
}

TEST_CASE("softmax_attention says what is wrong") {
  const auto [q, k, v] = normal_qkv(2, 3, 4, 5, 6);
  const Tensor flat = q.reshape({6, 4, 6});
  CHECK_THROWS_WITH_AS(softmax_attention(flat, k, v, {}, {"a.cpp", 1}),
                       "softmax_attention: q[6, 4, 6] has rank 3; [batch, heads, tokens, width] is needed (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(softmax_attention(q, k.narrow(3, 0, 5), v, {}, {"a.cpp", 1}),
                       "softmax_attention: q[2, 3, 4, 6] and k[2, 3, 5, 5] differ in width (6 ≠ 5); only the tokens "
                       "may differ (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      softmax_attention(q, k, v.narrow(2, 0, 4), {}, {"a.cpp", 1}),
      "softmax_attention: v[2, 3, 4, 6] and k[2, 3, 5, 6] must have one shape; reshape() or expand() "
      "one of them (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(softmax_attention(q, k.to(DType::float32), v), DTypeError);
  CHECK_THROWS_AS(softmax_attention(q.to(DType::int64), k.to(DType::int64), v.to(DType::int64)), DTypeError);
  CHECK_THROWS_WITH_AS(softmax_attention(q, k, v, {.padding_mask = ones({2, 5})}, {"a.cpp", 1}),
                       "softmax_attention: padding_mask is float32; it must be bool, false where a token is padding: "
                       "ne(mask, 0) gives that (a.cpp:1)",
                       DTypeError);
  CHECK_THROWS_WITH_AS(
      softmax_attention(q, k, v, {.padding_mask = ones({2, 4}, DType::boolean)}, {"a.cpp", 1}),
      "softmax_attention: padding_mask[2, 4] does not fit k[2, 3, 5, 6]: it must be [batch, tokens], [2, 5] "
      "(a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(softmax_attention(q, k, v, {.scale = kInfinity}, {"a.cpp", 1}),
                       "softmax_attention: scale is inf; it must be finite (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(softmax_attention(q, k, v, {.dropout = 1.5}, {"a.cpp", 1}),
                       "softmax_attention: dropout is 1.5; it must be in [0, 1] (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(softmax_attention(q, k, v, {.dropout = 0.1}, {"a.cpp", 1}),
                       "softmax_attention: dropout 0.1 needs a generator; set options.generator (a.cpp:1)",
                       ValueError);
}

TEST_CASE("attention of many sequences without heads is empty") {
  const Tensor none = zeros({8, 0, 3, 2});
  CHECK(softmax_attention(none, none, none).shape() == none.shape());
  for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
    CHECK(fastmax(none, none, none, {.form = form}).shape() == none.shape());
  }
}
