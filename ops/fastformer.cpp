#include <linnet/ops/fastformer.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/tape.h>
#include <linnet/ops/arithmetic.h>
#include <linnet/ops/compare.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/reduction.h>

namespace linnet {
namespace {

using detail::empty_heads;
using detail::with_plain_rows;

/// What forward leaves for backward: m and z of every softmax.
struct PoolState {
  Tensor maximum, total;
};

Grads additive_pool_backward(const Tensor& grad, const Tensor& out, const PoolState& state, const Tensor& scores,
                             const Tensor& x, const Tensor& keep, bool causal) {
  Op op("additive_pool_backward", Where{}, {grad, scores, x});
  op.non_differentiable("it is fused, for first derivatives only; softmax and matmul have second ones");
  Tensor dscores = Tensor::empty(scores.shape(), scores.dtype(), scores.device());
  Tensor dx = empty_heads(x.shape(), x.dtype(), x.device());
  const Tensor g = with_plain_rows(grad);
  const View mask = keep.defined() ? keep.view() : View{};
  x.backend().additive_pool_backward(dscores.view(), dx.view(), g.view(), out.view(), state.maximum.view(),
                                     state.total.view(), scores.view(), x.view(), keep.defined() ? &mask : nullptr,
                                     causal);
  return {dscores, dx};
}

/// w·x_i/√D, [B, H, N]: the exponents of eqs. 3 and 5.
Tensor logits(const Tensor& x, const Tensor& w) {
  const auto width = static_cast<double>(x.shape()[3]);
  return sum(mul(x, mul(w, width > 0 ? 1 / std::sqrt(width) : 1).unsqueeze(1)), {-1});
}

Tensor interact(const Tensor& global, const Tensor& x, Interaction interaction) {
  return interaction == Interaction::product ? mul(global, x) : add(global, x);
}

/// [B, N] against [B, H, N, D].
Tensor per_token(const Tensor& mask) { return mask.unsqueeze(1).unsqueeze(-1); }

/// Without what padding holds: not even a NaN may reach the gradients of w_q and w_k.
Tensor without_padding(const Tensor& x, const Tensor& keep) {
  return keep.defined() ? masked_fill(x, per_token(logical_not(keep)), 0) : x;
}

/// 0 where no token is left to sum.
Tensor zero_where_empty(const Tensor& u, const Tensor& keep, bool causal) {
  if (!keep.defined()) return u;
  const Tensor empty = causal ? eq(cumsum(keep, 1), 0) : logical_not(any(keep, {1}, true));
  return masked_fill(u, per_token(empty), 0);
}

void check_weight(const Tensor& w, const char* name, const Tensor& q) {
  const Shape wanted{q.shape()[1], q.shape()[3]};
  if (w.shape() == wanted) return;
  throw ShapeError(fmt::format("{}{} does not fit q{}: it must be [heads, width], {}", name, to_string(w.shape()),
                               to_string(q.shape()), to_string(wanted)));
}

}  // namespace

Tensor additive_pool(const Tensor& scores, const Tensor& x, const AdditivePoolOptions& options, Where where) {
  Op op("additive_pool", where, {scores, x});
  const DType dtype = op.floating_dtype();
  detail::check_heads(x, "x");
  const Shape& shape = x.shape();
  if (!(scores.shape() == Shape{shape[0], shape[1], shape[2]})) {
    throw ShapeError(fmt::format("scores{} do not fit x{}: they must be [batch, heads, tokens], one for each token",
                                 to_string(scores.shape()), to_string(shape)));
  }
  detail::check_keep(options.keep, x, "x");

  const Tensor tokens = with_plain_rows(x);
  const int64_t results = options.causal ? shape[2] : 1;
  Tensor out = empty_heads({shape[0], shape[1], results, shape[3]}, dtype, x.device());
  const PoolState state{Tensor::empty({shape[0], shape[1], results}, dtype, x.device()),
                        Tensor::empty({shape[0], shape[1], results}, dtype, x.device())};
  const View mask = options.keep.defined() ? options.keep.view() : View{};
  x.backend().additive_pool(out.view(), state.maximum.view(), state.total.view(), scores.view(), tokens.view(),
                            options.keep.defined() ? &mask : nullptr, options.causal);
  return op.record(out, [out = op.save_output(out), state, scores = op.save(scores), x = op.save(tokens),
                         keep = op.save(options.keep), causal = options.causal](const Tensor& g) {
    return additive_pool_backward(g, out(), state, scores(), x(), keep(), causal);
  });
}

Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q, const Tensor& w_k,
                          const AdditiveAttentionOptions& options, Where where) {
  Call call("additive_attention", where);
  detail::check_heads(q, "q");
  detail::check_same_shape(k, "k", q, "q");
  detail::check_same_shape(v, "v", q, "q");
  check_weight(w_q, "w_q", q);
  check_weight(w_k, "w_k", q);
  detail::check_keep(options.keep, q, "q");
  const AdditivePoolOptions pool{options.causal, options.keep};
  const Tensor queries = without_padding(q, options.keep), keys = without_padding(k, options.keep);

  // α_i = softmax_i(w_q·q_i/√D), q = sum α_i q_i                                   eqs. 3 and 4
  const Tensor global_query = additive_pool(logits(queries, w_q), queries, pool);
  // p_i = q ∘ k_i
  const Tensor p = interact(global_query, keys, options.interaction);
  // β_i = softmax_i(w_k·p_i/√D), k = sum β_i p_i                                   eqs. 5 and 6
  const Tensor global_key = additive_pool(logits(p, w_k), p, pool);
  // u_i = k ∘ v_i
  return zero_where_empty(interact(global_key, v, options.interaction), options.keep, options.causal);
}

}  // namespace linnet
