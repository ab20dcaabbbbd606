#include <cmath>

#include <doctest/doctest.h>

#include <linnet/core/random/philox.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/fastformer/additive_attention_gradient.md. Scores are [B, H, N, 1],
// global vectors [B, H, 1, D], and w_q and w_k [H, 1, D].

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kTokens = 150, kWidth = 3;
const double kRoot = std::sqrt(static_cast<double>(kWidth));

struct AdditiveCase {
  Tensor q = uniform({kBatch, kHeads, kTokens, kWidth}, 1, -2, 2), k = uniform(q.shape(), 2, -2, 2);
  Tensor v = uniform(q.shape(), 3), du = uniform(q.shape(), 4);
  Tensor w_q = uniform({kHeads, 1, kWidth}, 5, -2, 2) / kRoot, w_k = uniform({kHeads, 1, kWidth}, 6, -2, 2) / kRoot;
  /// 0 where token j comes after token i, else 1: [N, N].
  Tensor seen = le(arange(kTokens).reshape({1, -1}), arange(kTokens).reshape({-1, 1})).to(DType::float64);

  /// Gradients of q, k, v, and of the kernels' parameters, by the fused op.
  std::vector<Tensor> fused(const AdditiveAttentionOptions& options) const {
    std::vector<Tensor> leaves{q, k, v, (w_q * kRoot).reshape({kHeads, kWidth}),
                               (w_k * kRoot).reshape({kHeads, kWidth})};
    for (Tensor& leaf : leaves) leaf = leaf.detach().set_requires_grad();
    const Tensor u = additive_attention({leaves[0], leaves[1], leaves[2]}, {{leaves[3]}, {leaves[4]}}, options);
    std::vector<Tensor> gradients = grad({loss_of(u, du)}, leaves);
    for (const size_t i : {size_t{3}, size_t{4}}) gradients[i] = (gradients[i] * kRoot).unsqueeze(1);
    return gradients;
  }
};

Tensor dots(const Tensor& a, const Tensor& b) { return sum(a * b, {-1}, true); }

Tensor pool_weights(const Tensor& x, const Tensor& w) { return softmax(dots(x, w), 2); }

/// Σ_i m_i weight_i x_i
Tensor pool(const Tensor& x, const Tensor& w, const Tensor& factors) {
  return sum(factors * pool_weights(x, w) * x, {2}, true);
}

/// ∂s, ∂x and ∂w of a pool from r = ∂mean, by steps (2), (3) and (10). `offset` is added to r·x_i.
struct PoolGradient {
  Tensor ds, dx, dw;

  PoolGradient(const Tensor& x, const Tensor& w, const Tensor& factors, const Tensor& r, const Tensor& r_mean,
               const Tensor& offset) {
    const Tensor weight = pool_weights(x, w), value_weight = factors * weight;
    ds = value_weight * (dots(r, x) + offset) - weight * r_mean;
    dx = value_weight * r + ds * w;
    dw = sum(ds * x, {2}, true);
  }
};

/// Dropout's factors of the weights of a stage, [B, H, N, 1].
Tensor dropout_factors(RandomKey key, double rate) {
  Tensor factors = Tensor::empty({kBatch, kHeads, kTokens, 1}, DType::float64);
  uint64_t element = 0;
  for (double& factor : factors.mutable_data<double>()) {
    factor = random_word(key, element++) < keep_threshold(1 - rate) ? 1 / (1 - rate) : 0;
  }
  return factors;
}

/// Running means of the prefixes [B, H, N, D], and steps (11) to (14) for their cotangents G.
struct CausalPool {
  Tensor x, w, factors, weight, rescale, prefix_weights, means;

  CausalPool(const Tensor& x_, const Tensor& w_, const Tensor& factors_, const Tensor& seen)
      : x(x_), w(w_), factors(factors_) {
    const Tensor s = dots(x, w), log_sums = log(cumsum(exp(s), 2));
    weight = exp(s - log_sums);
    const Tensor before = log_sums.narrow(2, 0, kTokens - 1);
    rescale =
        concat({zeros({kBatch, kHeads, 1, 1}, DType::float64), exp(before - log_sums.narrow(2, 1, kTokens - 1))}, 2);
    prefix_weights = exp(transpose(s) - log_sums) * seen;
    std::vector<Tensor> of_tokens;
    Tensor mean = zeros({kBatch, kHeads, kWidth}, DType::float64);
    for (int64_t i = 0; i < kTokens; ++i) {
      mean = rescale.select(2, i) * mean + value_weight().select(2, i) * x.select(2, i);
      of_tokens.push_back(mean);
    }
    means = stack(of_tokens, 2);
  }

  /// The weights after dropout.
  Tensor value_weight() const { return factors * weight; }

  /// r and t of all tokens, by step (14).
  std::pair<Tensor, Tensor> carried(const Tensor& g) const {
    std::vector<Tensor> r(kTokens), t(kTokens);
    for (int64_t j = kTokens - 1; j >= 0; --j) {
      const Tensor g_j = g.select(2, j);
      const auto at = static_cast<size_t>(j);
      r[at] = g_j;
      t[at] = dots(g_j, means.select(2, j));
      if (j + 1 == kTokens) continue;
      r[at] = r[at] + rescale.select(2, j + 1) * r[at + 1];
      t[at] = t[at] + rescale.select(2, j + 1) * t[at + 1];
    }
    return {stack(r, 2), stack(t, 2)};
  }

  /// ∂s [B, H, N, 1] by step (13).
  Tensor score_gradients(const Tensor& r, const Tensor& t) const { return value_weight() * dots(x, r) - weight * t; }
};

}  // namespace

TEST_CASE("derivations: the gradient of one pool") {
  const AdditiveCase in;
  const Tensor one = ones({1}, DType::float64), r = uniform({kBatch, kHeads, 1, kWidth}, 7);
  const Tensor weights = pool_weights(in.q, in.w_q), mean = pool(in.q, in.w_q, one), s = dots(in.q, in.w_q);
  check_step("(1)", dots(r, in.q),
             tape_gradient(weights, [&](const Tensor& x) { return loss_of(sum(x * in.q, {2}, true), r); }));
  const PoolGradient gradient(in.q, in.w_q, one, r, dots(r, mean), zeros({1}, DType::float64));
  check_step("(2)", gradient.ds,
             tape_gradient(s, [&](const Tensor& x) { return loss_of(sum(softmax(x, 2) * in.q, {2}, true), r); }));
  check_step("(3) of x", gradient.dx,
             tape_gradient(in.q, [&](const Tensor& x) { return loss_of(pool(x, in.w_q, one), r); }));
  check_step("(3) of w", sum(gradient.dw, {0}),
             tape_gradient(in.w_q, [&](const Tensor& w) { return loss_of(pool(in.q, w, one), r); }));
  check_step("attention_pool", gradient.ds.squeeze(-1),
             tape_gradient(s.squeeze(-1), [&](const Tensor& x) { return loss_of(attention_pool(x, in.q), r); }));
}

TEST_CASE("derivations: the gradient of additive attention over whole sequences") {
  const AdditiveCase in;
  for (const bool add : {false, true}) {
    for (const double rate : {0.0, 0.3}) {
      CAPTURE(add);
      CAPTURE(rate);
      Generator rng(5), twin(5);
      const std::vector<Tensor> fused = in.fused(
          {.interaction = add ? Interaction::add : Interaction::product, .dropout = rate, .generator = &rng});
      const Tensor q_factors = dropout_factors(twin.next(), rate), k_factors = dropout_factors(twin.next(), rate);
      const auto interact = [add](const Tensor& a, const Tensor& b) { return add ? a + b : a * b; };
      const Tensor q = pool(in.q, in.w_q, q_factors), k = pool(interact(q, in.k), in.w_k, k_factors);

      check_step(add ? "(9) of v" : "(4) of v", add ? in.du : in.du * k, fused[2]);
      const Tensor dk_global = sum(add ? in.du : in.du * in.v, {2}, true);
      check_step(add ? "(9) of k" : "(4) of k", dk_global,
                 tape_gradient(k, [&](const Tensor& x) { return loss_of(interact(x, in.v), in.du); }));

      const Tensor w = add ? in.w_k : in.w_k * q, kept = sum(k_factors * pool_weights(in.k, w), {2}, true);
      const Tensor k_bar = pool(in.k, w, k_factors);
      check_step("(5)", add ? q * kept + k_bar : q * k_bar, k);

      const Tensor r = add ? dk_global : q * dk_global, r_mean = dots(dk_global, k);
      const Tensor offset = add ? dots(dk_global, q) : zeros({1}, DType::float64);
      const PoolGradient keys(in.k, w, k_factors, r, r_mean, offset);
      check_step("(6)", keys.dx, fused[1]);
      const Tensor dw_k = add ? keys.dw : q * keys.dw;
      check_step("(7) of w_k", sum(dw_k, {0}), fused[4]);
      const Tensor dq_global = add ? dk_global * kept : k_bar * dk_global + in.w_k * keys.dw;
      check_step("(7) of q", dq_global, tape_gradient(q, [&](const Tensor& x) {
                   return loss_of(interact(pool(interact(x, in.k), in.w_k, k_factors), in.v), in.du);
                 }));

      const PoolGradient queries(in.q, in.w_q, q_factors, dq_global, dots(dq_global, q), zeros({1}, DType::float64));
      check_step("(8) of q", queries.dx, fused[0]);
      check_step("(8) of w_q", sum(queries.dw, {0}), fused[3]);
    }
  }
}

TEST_CASE("derivations: the gradient of causal additive attention") {
  const AdditiveCase in;
  for (const double rate : {0.0, 0.3}) {
    CAPTURE(rate);
    Generator rng(5), twin(5);
    const std::vector<Tensor> fused = in.fused({.causal = true, .dropout = rate, .generator = &rng});
    const Tensor q_factors = dropout_factors(twin.next(), rate), k_factors = dropout_factors(twin.next(), rate);
    const CausalPool queries(in.q, in.w_q, q_factors, in.seen);
    check_step("(11)", queries.means, matmul(queries.prefix_weights, q_factors * in.q));
    const CausalPool keys(queries.means * in.k, in.w_k, k_factors, in.seen);

    check_step("(15) of v", in.du * keys.means, fused[2]);
    const Tensor g_k = in.du * in.v;
    const auto [r, t] = keys.carried(g_k);
    // (12), with all pairs of tokens, and the same sums as (13) writes them.
    const Tensor dots_of_pairs = matmul(g_k, transpose(k_factors * keys.x)) - dots(g_k, keys.means);
    const Tensor ds_of_pairs = sum(keys.prefix_weights * dots_of_pairs, {2}).unsqueeze(-1);
    check_step("(12) of s", ds_of_pairs, tape_gradient(dots(keys.x, keys.w), [&](const Tensor& scores) {
                 return loss_of(attention_pool(scores.squeeze(-1), k_factors * keys.x, {.causal = true}), g_k);
               }));
    const Tensor through_values = k_factors * matmul(transpose(keys.prefix_weights), g_k);
    check_step("(12) of x", through_values + ds_of_pairs * keys.w, tape_gradient(keys.x, [&](const Tensor& x) {
                 return loss_of(CausalPool(x, keys.w, k_factors, in.seen).means, g_k);
               }));
    check_step("(13) of x", keys.value_weight() * r, through_values);
    const Tensor ds = keys.score_gradients(r, t);
    check_step("(13) of s", ds, ds_of_pairs);
    const Tensor ratios = transpose(keys.prefix_weights) / keys.weight;  // e^{l_j - l_i}, 0 for i < j
    check_step("(14) of r", r, matmul(ratios, g_k));
    check_step("(14) of t", t, matmul(ratios, dots(g_k, keys.means)));

    const Tensor dp = keys.value_weight() * r + ds * in.w_k;
    check_step("(15) of k", dp * queries.means, fused[1]);
    check_step("(15) of w_k", sum(ds * keys.x, {0, 2}).unsqueeze(1), fused[4]);
    const auto [r_q, t_q] = queries.carried(dp * in.k);
    const Tensor ds_q = queries.score_gradients(r_q, t_q);
    check_step("(15) of q", queries.value_weight() * r_q + ds_q * in.w_q, fused[0]);
    check_step("(15) of w_q", sum(ds_q * in.q, {0, 2}).unsqueeze(1), fused[3]);

    // The sums that tokens 60 … 149 pass to token 59: once for all of them, once through the chunk 60 … 99.
    const int64_t begin = 60, end = 100;
    const Tensor later = ge(arange(kTokens), end).to(DType::float64).reshape({-1, 1});
    const auto own = keys.carried(g_k * (1 - later));
    const Tensor rescale = prod(keys.rescale.narrow(2, begin, end - begin), {2});
    const auto handed_on = [&](const Tensor& x, int64_t to) { return keys.rescale.select(2, to) * x.select(2, to); };
    const Tensor r_in = handed_on(r, end), t_in = handed_on(t, end);
    check_step("(16) of r", handed_on(own.first, begin) + rescale * r_in, handed_on(r, begin));
    check_step("(16) of t", handed_on(own.second, begin) + rescale * t_in, handed_on(t, begin));
  }
}
