#include <linnet/core/tape.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/quadratic_attention.h>

/// Quadratic attention of standardised queries and keys, as one op: what it keeps for backward are those, v, o and
/// the normalisers, and neither pass standardises twice.

namespace linnet::detail {
namespace {

/// Uninitialised; see StandardisedHeads.
struct Kept {
  Tensor q, k, q_rstd, k_rstd;

  Kept(const Tensor& queries, const Tensor& keys)
      : q(like(queries)), k(like(keys)), q_rstd(one_each(queries)), k_rstd(one_each(keys)) {}

  StandardisedHeads view() const { return {q.view(), k.view(), q_rstd.view(), k_rstd.view()}; }

 private:
  static Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }
  static Tensor one_each(const Tensor& x) {
    return Tensor::empty({x.size(0), x.size(1), x.size(2)}, x.dtype(), x.device());
  }
};

Grads standardised_attention_backward(const Tensor& grad, const Tensor& o, const Tensor& normaliser, const Kept& kept,
                                      const Tensor& v, const Tensor& keep, const AttentionOptions& options) {
  Op op("attention_backward", Where{}, {grad, v});
  op.non_differentiable("it is fused, for first derivatives only; FastmaxForm::reference has second ones");
  Tensor dq = empty_heads(kept.q.shape(), v.dtype(), v.device());
  Tensor dk = empty_heads(v.shape(), v.dtype(), v.device());
  Tensor dv = empty_heads(v.shape(), v.dtype(), v.device());
  const Tensor g = with_plain_rows(grad);
  const View mask = keep.defined() ? keep.view() : View{};
  v.backend().standardised_attention_backward(dq.view(), dk.view(), dv.view(), g.view(), o.view(), normaliser.view(),
                                              kept.view(), v.view(), keep.defined() ? &mask : nullptr, options);
  return {dq, dk, dv};
}

}  // namespace

Tensor standardised_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                              const AttentionOptions& options) {
  Op op("attention", Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  check_qkv(q, k, v, keep);
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Kept kept(q, k);
  const Tensor normaliser = Tensor::empty({q.size(0), q.size(1), q.size(2)}, dtype, q.device());
  const View mask = keep.defined() ? keep.view() : View{};
  q.backend().standardised_attention(o.view(), normaliser.view(), kept.view(), queries.view(), keys.view(),
                                     values.view(), keep.defined() ? &mask : nullptr, options);
  return op.record(o, [o = op.save_output(o), normaliser, kept, v = op.save(values), keep = op.save(keep),
                       options](const Tensor& g) {
    return standardised_attention_backward(g, o(), normaliser, kept, v(), keep(), options);
  });
}

}  // namespace linnet::detail
