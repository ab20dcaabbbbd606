#include <linnet/ops/fastformer.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/core/error.h>
#include <linnet/core/parallel.h>
#include <linnet/core/tape.h>
#include <linnet/ops/arithmetic.h>
#include <linnet/ops/join.h>
#include <linnet/ops/reduction.h>
#include <linnet/ops/softmax.h>

#include "tests/ops/attention_reference.h"

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Row i of [.., N, D] holds the pool of what token i sees.
std::vector<double> pool_reference(const Tensor& scores, const Tensor& x, const Sees& sees) {
  const std::vector<double> s = scores.to_vector<double>();
  const int64_t heads = x.shape()[1], tokens = x.shape()[2];
  const auto score = [&](int64_t b, int64_t h, int64_t j) {
    return s[static_cast<size_t>((b * heads + h) * tokens + j)];
  };
  return weighted_means(
      [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        double largest = -kInfinity;
        for (int64_t other = 0; other < tokens; ++other) {
          if (sees(b, i, other)) largest = std::max(largest, score(b, h, other));
        }
        return std::exp(score(b, h, j) - largest);
      },
      tokens, x, sees);
}

/// The same of a pool over all tokens, which gives one row.
std::vector<double> expand_rows(const Tensor& pooled, const Shape& shape) {
  return pooled.expand(shape).to_vector<double>();
}

/// Eqs. 3–6 with the weights of each token written out.
std::vector<double> additive_reference(const std::vector<Tensor>& in, Interaction interaction, const Sees& sees) {
  const Shape shape = in[0].shape();
  const auto width = static_cast<double>(shape[3]);
  const auto meet = [&](const std::vector<double>& global, const Tensor& x) {
    const Tensor g = tensor(global, shape);
    return interaction == Interaction::product ? mul(g, x) : add(g, x);
  };
  const auto logits = [&](const Tensor& x, const Tensor& w) {
    return div(sum(mul(x, w.unsqueeze(1)), {-1}), std::sqrt(width));
  };
  const std::vector<double> global_query = pool_reference(logits(in[0], in[3]), in[0], sees);
  const Tensor p = meet(global_query, in[1]);
  std::vector<double> u = meet(pool_reference(logits(p, in[4]), p, sees), in[2]).to_vector<double>();
  for (size_t at = 0; at < u.size(); ++at) {
    const int64_t row = static_cast<int64_t>(at) / shape[3], i = row % shape[2], b = row / shape[2] / shape[1];
    bool any_seen = false;
    for (int64_t j = 0; j < shape[2]; ++j) any_seen = any_seen || sees(b, i, j);
    if (!any_seen) u[at] = 0;
  }
  return u;
}

std::vector<Tensor> additive_inputs(int64_t b, int64_t h, int64_t n, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), normal({b, h, n, d}, 3, dtype),
          normal({h, d}, 4, dtype), normal({h, d}, 5, dtype)};
}

Tensor run(const std::vector<Tensor>& in, const AdditiveAttentionOptions& options) {
  return additive_attention(in[0], in[1], in[2], in[3], in[4], options);
}

std::vector<Tensor> forward_backward(std::vector<Tensor> in, const AdditiveAttentionOptions& options,
                                     const Tensor& cotangent) {
  for (Tensor& x : in) {
    x = x.detach();
    x.set_requires_grad();
  }
  const Tensor u = run(in, options);
  std::vector<Tensor> results = grad({u}, in, {.grad_outputs = {cotangent}});
  results.push_back(u.detach());
  return results;
}

}  // namespace

TEST_CASE("additive_pool is the explicit formula") {
  const Tensor scores = normal({2, 2, 33}, 1), x = normal({2, 2, 33, 5}, 2);
  CHECK(relative_error(additive_pool(scores, x, {.causal = true}), pool_reference(scores, x, sees(33, 33, true))) <
        1e-14);
  const Tensor all = additive_pool(scores, x);
  CHECK(all.shape() == Shape{2, 2, 1, 5});
  CHECK(relative_error(expand_rows(all, x.shape()), pool_reference(scores, x, sees(33, 33, false))) < 1e-14);
}

TEST_CASE("additive_pool keeps its digits at logits of ±80 and beyond") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double bound = dtype == DType::float64 ? 1e-14 : 1e-6;
    const Tensor x = normal({1, 2, 200, 3}, 2, dtype);
    for (const double size : {80.0, 1e4}) {
      const Tensor scores = mul(normal({1, 2, 200}, 1, dtype), size);
      const Tensor rising = mul(sub(arange(200, dtype), 100), size / 100).expand({1, 2, 200});
      for (const Tensor& s : {scores, rising, neg(rising)}) {
        CHECK(relative_error(additive_pool(s, x, {.causal = true}), pool_reference(s, x, sees(200, 200, true))) <
              bound);
        CHECK(relative_error(expand_rows(additive_pool(s, x), x.shape()),
                             pool_reference(s, x, sees(200, 200, false))) < bound);
      }
    }
  }
}

TEST_CASE("The gradients of additive_pool keep their digits at logits of ±80") {
  // Causal pooling is softmax over each prefix: its gradients come from that, one prefix at a time.
  const int64_t n = 12;
  Tensor scores = mul(normal({1, 1, n}, 1), 80).set_requires_grad();
  Tensor x = normal({1, 1, n, 2}, 2).set_requires_grad();
  const Tensor g = normal({1, 1, n, 2}, 3);
  const std::vector<Tensor> actual =
      grad({additive_pool(scores, x, {.causal = true})}, {scores, x}, {.grad_outputs = {g}});
  Tensor total = zeros({}, DType::float64);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor weights = softmax(scores.narrow(2, 0, i + 1)).unsqueeze(-1);
    total = total + sum(mul(sum(mul(weights, x.narrow(2, 0, i + 1)), {2}), g.select(2, i)));
  }
  const std::vector<Tensor> expected = grad({total}, {scores, x});
  for (size_t i = 0; i < 2; ++i) CHECK(relative_error(actual[i], expected[i].to_vector<double>()) < 1e-12);
}

TEST_CASE("additive_pool takes scores of −∞ as padding") {
  Tensor scores = tensor({-kInfinity, 1, -kInfinity, 2}, {1, 1, 4}, DType::float64);
  const Tensor x = normal({1, 1, 4, 2}, 1);
  for (const bool causal : {false, true}) {
    const Tensor keep = keep_all_but(1, 4, {{0, 0}, {0, 2}});
    CHECK(same_bits(additive_pool(scores, x, {.causal = causal}),
                    additive_pool(scores, x, {.causal = causal, .keep = keep})));
  }
}

TEST_CASE("additive_attention is eqs. 3–6 written out") {
  const std::vector<Tensor> in = additive_inputs(2, 2, 17, 5);
  for (const bool causal : {false, true}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add}) {
      CHECK(relative_error(run(in, {.interaction = interaction, .causal = causal}),
                           additive_reference(in, interaction, sees(17, 17, causal))) < 1e-13);
    }
  }
  const std::vector<Tensor> single = additive_inputs(1, 2, 60, 32, DType::float32);
  std::vector<Tensor> same;
  for (const Tensor& x : single) same.push_back(x.to(DType::float64));
  CHECK(relative_error(run(single, {.causal = true}),
                       additive_reference(same, Interaction::product, sees(60, 60, true))) < 1e-6);
}

TEST_CASE("additive_attention does not care for the order of the tokens, but when causal") {
  const std::vector<Tensor> in = additive_inputs(1, 2, 9, 4);
  const auto swapped = [](const Tensor& x) { return concat({x.narrow(2, 4, 5), x.narrow(2, 0, 4)}, 2); };
  const std::vector<Tensor> turned = {swapped(in[0]), swapped(in[1]), swapped(in[2]), in[3], in[4]};
  CHECK(relative_error(run(turned, {}), swapped(run(in, {})).to_vector<double>()) < 1e-13);
  CHECK(relative_error(run(turned, {.causal = true}), swapped(run(in, {.causal = true})).to_vector<double>()) > 0.01);
}

TEST_CASE("additive_attention leaves out padding; where nothing is left it is 0 without gradient") {
  const std::vector<Tensor> in = additive_inputs(2, 2, 6, 3);
  const Tensor keep = keep_all_but(2, 6, {{0, 0}, {0, 5}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for (const bool causal : {false, true}) {
    for (const Interaction interaction : {Interaction::product, Interaction::add}) {
      const AdditiveAttentionOptions options{interaction, causal, keep};
      const std::vector<Tensor> expected = forward_backward(in, options, normal({2, 2, 6, 3}, 6));
      CHECK(relative_error(expected[5], additive_reference(in, interaction, sees(6, 6, causal, keep))) < 1e-13);
      for (const size_t i : {0, 1, 2, 5}) {
        CHECK(same_bits(expected[i].narrow(0, 1, 1), zeros({1, 2, 6, 3}, DType::float64)));
      }

      // Whatever padded queries and keys hold, and values too (of which a token's own result is made).
      for (const double value : {1e30, kNan, kInfinity}) {
        std::vector<Tensor> changed = in;
        for (const size_t i : {0, 1}) {
          changed[i] = with_tokens(with_tokens(with_tokens(in[i], 0, 0, 1, value), 0, 5, 6, value), 1, 0, 6, value);
        }
        const std::vector<Tensor> results = forward_backward(changed, options, normal({2, 2, 6, 3}, 6));
        for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
        changed[2] = with_tokens(in[2], 0, 5, 6, value);
        CHECK(same_bits(run(changed, options).narrow(2, 0, 5), expected[5].narrow(2, 0, 5)));
      }
    }
  }
}

TEST_CASE("Causal additive_attention: the future changes no bit of the past") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::vector<Tensor> in = additive_inputs(1, 2, 150, 24, dtype);
    const Tensor expected = run(in, {.causal = true});
    for (const int64_t t : {1, 16, 63, 64, 149}) {
      for (const double value : {3.0, kNan, kInfinity}) {
        std::vector<Tensor> changed = in;
        for (const size_t i : {0, 1, 2}) changed[i] = with_tokens(in[i], 0, t, 150, value);
        CHECK(same_bits(run(changed, {.causal = true}).narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  }
}

TEST_CASE("additive_attention takes the heads of a fused projection, on any number of threads") {
  const int64_t b = 3, n = 200, h = 4, d = 16, c = h * d;
  const Tensor qkv = normal({b, n, 3 * c}, 5, DType::float32);
  const auto heads = [&](int64_t i) { return qkv.narrow(2, i * c, c).reshape({b, n, h, d}).transpose(1, 2); };
  const std::vector<Tensor> strided = {heads(0), heads(1), heads(2), normal({h, d}, 6, DType::float32),
                                       normal({h, d}, 7, DType::float32)};
  std::vector<Tensor> dense = strided;
  for (Tensor& x : dense) x = x.contiguous();
  const Tensor g = normal({b, h, n, d}, 8, DType::float32);
  const std::vector<Tensor> expected = forward_backward(dense, {.causal = true}, g);
  const int before = num_threads();
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const std::vector<Tensor> results = forward_backward(strided, {.causal = true}, g);
    CHECK(same_bits(results[5], expected[5]));
    CHECK(same_bits(results[0], expected[0]));
    CHECK(same_bits(forward_backward(dense, {.causal = true}, g)[3], expected[3]));
  }
  set_num_threads(before);
}

TEST_CASE("additive_pool and additive_attention say what is wrong") {
  const std::vector<Tensor> in = additive_inputs(2, 3, 4, 5);
  CHECK_THROWS_WITH_AS(
      additive_pool(normal({2, 3, 5}, 1), in[0], {}, {"a.cpp", 1}),
      "additive_pool: scores[2, 3, 5] do not fit x[2, 3, 4, 5]: they must be [batch, heads, tokens], "
      "one for each token (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(additive_pool(normal({2, 3, 4}, 1), in[0].reshape({2, 3, 20})), ShapeError);
  CHECK_THROWS_AS(additive_pool(normal({2, 3, 4}, 1, DType::float32), in[0]), DTypeError);
  CHECK_THROWS_AS(additive_pool(normal({2, 3, 4}, 1), in[0], {.keep = ones({2, 5}, DType::boolean)}), ShapeError);
  CHECK_THROWS_WITH_AS(additive_attention(in[0], in[1].narrow(2, 0, 3), in[2], in[3], in[4], {}, {"a.cpp", 1}),
                       "additive_attention: k[2, 3, 3, 5] and q[2, 3, 4, 5] differ; they need one shape (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(additive_attention(in[0], in[1], in[2], in[3].reshape({5, 3}), in[4], {}, {"a.cpp", 1}),
                       "additive_attention: w_q[5, 3] does not fit q[2, 3, 4, 5]: it must be [heads, width], [3, 5] "
                       "(a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(additive_attention(in[0], in[1].to(DType::float32), in[2], in[3], in[4]), DTypeError);
}
