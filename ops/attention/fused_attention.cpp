#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/fused_attention.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

/// The two attentions with kernels of their own: weight by weight (softmax and Fastmax), and factorised Fastmax. Both
/// save q, k, v, o and every row's denominator for backward, so memory is linear in the tokens.

namespace linnet::detail {
namespace {

constexpr const char* kParts = "its weights (softmax_attention_weights, fastmax_weights) and matmul";

Tensor empty_denominator(const Tensor& q) {
  return Tensor::empty({q.size(0), q.size(1), q.size(2)}, computed_in(q.dtype()), q.device());
}

/// A KeySet, with ranges for each sequence and head.
struct SavedKeySet {
  Saved k, v, padding_mask, ranges, positions;
  RandomKey dropout_rng;
};

/// The rows of x that a set has: all, or copies of those at the positions.
Tensor rows_of_set(const Tensor& x, const Tensor& positions) {
  if (!positions.defined()) return x;
  const NoGrad no_grad;
  return tokens_at(x, positions);
}

/// The parameters of set `index`.
AttentionParams params_of(AttentionParams params, RandomKey dropout_rng, size_t index) {
  params.dropout_rng = dropout_rng;
  params.accumulate = index > 0;
  return params;
}

Grads quadratic_attention_backward(const Tensor& grad, const Tensor& o, const Tensor& denominator, const Tensor& q,
                                   const std::vector<SavedKeySet>& sets, const AttentionParams& params) {
  Op op("attention_backward", Where{}, {grad, q});
  op.first_derivative_only(kParts);
  const Tensor g = with_plain_rows(grad);
  Tensor dq;
  Grads grads(1);
  for (size_t i = 0; i < sets.size(); ++i) {
    const Tensor padding_mask = sets[i].padding_mask(), ranges = sets[i].ranges(), positions = sets[i].positions();
    Tensor dk, dv;
    {
      const Tensor k = rows_of_set(sets[i].k(), positions), v = rows_of_set(sets[i].v(), positions);
      std::vector<Tensor> gradients = i == 0 ? empty_gradients({q, k, v}) : empty_gradients({k, v});
      if (i == 0) dq = gradients[0];
      dk = gradients[gradients.size() - 2];
      dv = gradients.back();
      backend(q).attention_backward(detail::view(dq), detail::view(dk), detail::view(dv), detail::view(g),
                                    detail::view(o), detail::view(denominator), detail::view(q), detail::view(k),
                                    detail::view(v), {OptionalView(padding_mask).get(), OptionalView(ranges).get()},
                                    params_of(params, sets[i].dropout_rng, i));
    }
    if (positions.defined()) {
      dk = sums_at(dk, positions, sets[i].k().size(2));
      dv = sums_at(dv, positions, sets[i].v().size(2));
    }
    grads.insert(grads.end(), {dk, dv});
  }
  grads[0] = dq;
  return grads;
}

Grads fused_fastmax_backward(const Tensor& grad, const Tensor& o, const Tensor& denominator, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                             const FastmaxParams& params) {
  Op op("fastmax_backward", Where{}, {grad, q, k, v});
  op.first_derivative_only(kParts);
  const std::vector<Tensor> gradients = empty_gradients({q, k, v});
  const Tensor g = with_plain_rows(grad);
  backend(q).fastmax_backward(detail::view(gradients[0]), detail::view(gradients[1]), detail::view(gradients[2]),
                              detail::view(g), detail::view(o), detail::view(denominator), detail::view(q),
                              detail::view(k), detail::view(v), OptionalView(padding_mask).get(), params);
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace

Tensor quadratic_attention(const Tensor& q, const std::vector<KeySet>& sets, const AttentionParams& params) {
  std::vector<Tensor> inputs{q};
  for (const KeySet& set : sets) inputs.insert(inputs.end(), {set.k, set.v});
  Op op("attention", Where{}, inputs);
  const DType dtype = op.floating_dtype();
  const Tensor queries = with_plain_rows(q);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor denominator = empty_denominator(q);
  std::vector<SavedKeySet> saved;
  for (size_t i = 0; i < sets.size(); ++i) {
    const KeySet& set = sets[i];
    const Tensor k = with_plain_rows(rows_of_set(set.k, set.positions));
    const Tensor v = with_plain_rows(rows_of_set(set.v, set.positions));
    const bool is_copy = set.positions.defined();
    const Tensor ranges = set.ranges.defined() ? set.ranges.expand({q.size(0), q.size(1), q.size(2), 2}) : Tensor();
    backend(q).attention(detail::view(o), detail::view(denominator), detail::view(queries), detail::view(k),
                         detail::view(v), {OptionalView(set.padding_mask).get(), OptionalView(ranges).get()},
                         params_of(params, set.dropout_rng, i));
    saved.push_back({op.save(is_copy ? set.k : k), op.save(is_copy ? set.v : v), op.save(set.padding_mask),
                     op.save(ranges), op.save(set.positions), set.dropout_rng});
  }
  return op.record(o, [o = op.save_output(o), denominator = op.save(denominator), q = op.save(queries),
                       sets = std::move(saved), params](const Tensor& g) {
    return quadratic_attention_backward(g, o(), denominator(), q(), sets, params);
  });
}

Tensor softmax_over(const Tensor& q, std::vector<KeySet> sets, const SoftmaxAttentionOptions& options) {
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = attention_scale(options.scale, q.size(3));
  params.causal = options.causal;
  params.dropout = options.dropout;
  for (KeySet& set : sets) {
    if (options.dropout > 0) set.dropout_rng = options.generator->next();
  }
  return quadratic_attention(q, sets, params);
}

Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params) {
  Op op("fastmax", Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  check_qkv(q, k, v, padding_mask);
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor denominator = empty_denominator(q);
  backend(q).fastmax(detail::view(o), detail::view(denominator), detail::view(queries), detail::view(keys),
                     detail::view(values), OptionalView(padding_mask).get(), params);
  return op.record(
      o, [o = op.save_output(o), denominator = op.save(denominator), q = op.save(queries), k = op.save(keys),
          v = op.save(values), padding_mask = op.save(padding_mask), params](const Tensor& g) {
        return fused_fastmax_backward(g, o(), denominator(), q(), k(), v(), padding_mask(), params);
      });
}

}  // namespace linnet::detail
