#include <linnet/ops/detail/factorised_fastmax.h>

#include <linnet/core/tape.h>
#include <linnet/ops/detail/heads.h>

namespace linnet::detail {
namespace {

Grads factorised_fastmax_backward(const Tensor& grad, const Tensor& o, const Tensor& normaliser, const Tensor& q,
                                  const Tensor& k, const Tensor& v, const Tensor& keep, const FastmaxKernel& kernel) {
  Op op("fastmax_backward", Where{}, {grad, q, k, v});
  op.non_differentiable("it is fused, for first derivatives only; attention written with matmul has second ones");
  Tensor dq = empty_heads(q.shape(), q.dtype(), q.device());
  Tensor dk = empty_heads(k.shape(), k.dtype(), k.device());
  Tensor dv = empty_heads(v.shape(), v.dtype(), v.device());
  const Tensor g = with_plain_rows(grad);
  const View mask = keep.defined() ? keep.view() : View{};
  q.backend().fastmax_backward(dq.view(), dk.view(), dv.view(), g.view(), o.view(), normaliser.view(), q.view(),
                               k.view(), v.view(), keep.defined() ? &mask : nullptr, kernel);
  return {dq, dk, dv};
}

}  // namespace

Tensor factorised_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                          const FastmaxKernel& kernel) {
  Op op("fastmax", Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  check_qkv(q, k, v, keep);
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor normaliser = Tensor::empty({q.shape()[0], q.shape()[1], q.shape()[2]}, dtype, q.device());
  const View mask = keep.defined() ? keep.view() : View{};
  q.backend().fastmax(o.view(), normaliser.view(), queries.view(), keys.view(), values.view(),
                      keep.defined() ? &mask : nullptr, kernel);
  return op.record(o, [o = op.save_output(o), normaliser, q = op.save(queries), k = op.save(keys),
                       v = op.save(values), keep = op.save(keep), kernel](const Tensor& g) {
    return factorised_fastmax_backward(g, o(), normaliser, q(), k(), v(), keep(), kernel);
  });
}

}  // namespace linnet::detail
