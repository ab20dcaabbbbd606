#include <linnet/ops/attention/attention.h>

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include <linnet/core/random/philox.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/attention/softmax_attention_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kQueries = 70, kKeys = 133, kWidth = 3;
constexpr double kScale = 0.7;

/// The inputs, the cotangent G, and true where a query does not see a key.
struct SoftmaxCase {
  Tensor q = uniform({2, 2, kQueries, kWidth}, 1, -2, 2), k = uniform({2, 2, kKeys, kWidth}, 2, -2, 2);
  Tensor v = uniform({2, 2, kKeys, kWidth}, 3), g = uniform({2, 2, kQueries, kWidth}, 4);
  Tensor hidden;

  explicit SoftmaxCase(bool causal) {
    const Tensor i = arange(kQueries).reshape({-1, 1}), j = arange(kKeys).reshape({1, -1});
    hidden = causal ? gt(j, i + (kKeys - kQueries)) : gt(j, kKeys);
  }
  Tensor scores() const { return masked_fill(kScale * matmul(q, transpose(k)), hidden, -kInfinity); }
};

Tensor power_of_2(const Tensor& x) { return exp(x * std::numbers::ln2); }

/// Gradients of q, k and v by the fused op.
std::vector<Tensor> fused_gradients(const SoftmaxCase& in, SoftmaxAttentionOptions options) {
  const std::vector<Tensor> leaves{in.q.detach().set_requires_grad(), in.k.detach().set_requires_grad(),
                                   in.v.detach().set_requires_grad()};
  options.scale = kScale;
  return grad({loss_of(softmax_attention(leaves[0], leaves[1], leaves[2], options), in.g)}, leaves);
}

/// Dropout's factors of the weights, [B, H, N, M].
Tensor dropout_factors(RandomKey key, double rate) {
  Tensor factors = Tensor::empty({2, 2, kQueries, kKeys}, DType::float64);
  uint64_t element = 0;
  for (double& factor : factors.mutable_data<double>()) {
    factor = random_word(key, element++) < keep_threshold(1 - rate) ? 1 / (1 - rate) : 0;
  }
  return factors;
}

}  // namespace

TEST_CASE("derivations: softmax attention, tile by tile with one number for each query") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const SoftmaxCase in(causal);
    const Tensor s = in.scores(), p = softmax(s, -1);
    const Tensor shifted = exp(s - max(s, {-1}, true));
    check_step("(1)", shifted / sum(shifted, {-1}, true), p);
    const Tensor sigma = s * std::numbers::log2e;
    check_step("(2)", power_of_2(sigma), exp(s));

    Tensor m = full({2, 2, kQueries, 1}, -1e300, DType::float64), z = zeros(m.shape(), DType::float64);
    Tensor a = zeros(in.q.shape(), DType::float64);
    for (int64_t from = 0; from < kKeys; from += 32) {
      const int64_t count = std::min<int64_t>(32, kKeys - from);
      const Tensor tile = sigma.narrow(3, from, count);
      const Tensor m_next = maximum(m, max(tile, {-1}, true)), rescale = power_of_2(m - m_next);
      const Tensor weights = power_of_2(tile - m_next);
      z = rescale * z + sum(weights, {-1}, true);
      a = rescale * a + matmul(weights, in.v.narrow(2, from, count));
      m = m_next;
    }
    const Tensor o = softmax_attention(in.q, in.k, in.v, {.causal = causal, .scale = kScale});
    check_step("(3)", a / z, o);
    check_step("(4)", power_of_2(sigma - (m + log2(z))), p);
  }
}

TEST_CASE("derivations: the gradient of softmax attention") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const SoftmaxCase in(causal);
    const Tensor s = in.scores(), p = softmax(s, -1), o = matmul(p, in.v);

    const Tensor dv = matmul(transpose(p), in.g);
    check_step("(5)", dv, tape_gradient(in.v, [&](const Tensor& v) { return loss_of(matmul(p, v), in.g); }));
    const Tensor dp = matmul(in.g, transpose(in.v));
    check_step("(6)", dp, tape_gradient(p, [&](const Tensor& x) { return loss_of(matmul(x, in.v), in.g); }));

    // The Jacobian [j, l] of the first query's weights, computed row by row with the tape.
    const Tensor s_0 = s.select(0, 0).select(0, 0).select(0, 0), p_0 = softmax(s_0, -1);
    const Tensor identity = eye(kKeys, -1, DType::float64);
    const Tensor jacobian = p_0.unsqueeze(1) * (identity - p_0.unsqueeze(0));
    std::vector<Tensor> rows;
    for (int64_t j = 0; j < kKeys; ++j) {
      rows.push_back(tape_gradient(s_0, [&](const Tensor& x) { return softmax(x, -1).select(0, j); }));
    }
    check_step("(7)", jacobian, stack(rows));

    const Tensor ds_by_tape =
        tape_gradient(s, [&](const Tensor& x) { return loss_of(matmul(softmax(x, -1), in.v), in.g); });
    const Tensor mean = sum(p * dp, {-1}, true);
    check_step("(8)", p * (dp - mean), ds_by_tape);
    const Tensor delta = sum(in.g * o, {-1}, true);
    check_step("(9)", delta, mean);
    const Tensor ds = p * (matmul(in.g, transpose(in.v)) - delta);
    check_step("(10)", ds, ds_by_tape);

    const Tensor dq = kScale * matmul(ds, in.k), dk = kScale * matmul(transpose(ds), in.q);
    const std::vector<Tensor> fused = fused_gradients(in, {.causal = causal});
    check_step("(11) of q", dq, fused[0]);
    check_step("(11) of k", dk, fused[1]);
    check_step("(5), fused", dv, fused[2]);
  }
}

TEST_CASE("derivations: the gradient of softmax attention with dropout") {
  constexpr double kRate = 0.3;
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const SoftmaxCase in(causal);
    Generator rng(5), twin(5);
    const std::vector<Tensor> fused = fused_gradients(in, {.causal = causal, .dropout = kRate, .generator = &rng});
    const Tensor r = dropout_factors(twin.next(), kRate), p = softmax(in.scores(), -1);
    const Tensor o = matmul(r * p, in.v), delta = sum(in.g * o, {-1}, true);

    const Tensor dp = r * matmul(in.g, transpose(in.v));
    check_step("(12) of p", dp,
               tape_gradient(p, [&](const Tensor& x) { return loss_of(matmul(r * x, in.v), in.g); }));
    check_step("(12) of delta", delta, sum(p * dp, {-1}, true));
    const Tensor ds = p * (dp - delta);
    check_step("(12) of q", kScale * matmul(ds, in.k), fused[0]);
    check_step("(12) of k", kScale * matmul(transpose(ds), in.q), fused[1]);
    check_step("(12) of v", matmul(transpose(r * p), in.g), fused[2]);
  }
}
