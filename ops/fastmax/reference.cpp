#include <linnet/ops/detail/fastmax_reference.h>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::detail {
namespace {

/// Eqs. 5 and 6.
Tensor standardised(const Tensor& x) {
  const Tensor centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5);
}

}  // namespace

Tensor fastmax_reference_weights(const Tensor& q, const Tensor& k, const Tensor& padding_mask,
                                 const FastmaxParams& params) {
  const auto normalised = [&](const Tensor& x) { return params.standardise ? standardised(x) : x; };
  const Tensor s = matmul(normalised(q), transpose(normalised(without_padding(k, padding_mask))));
  Tensor f = params.a0 + s * (params.a1 + params.a2 * s);  // eq. 8
  const Tensor hidden = unseen(q.size(2), k.size(2), padding_mask, params.causal, q.device());
  if (hidden.defined()) f = masked_fill(f, hidden, 0);
  const Tensor g = sum(f, {-1}, true);
  return f / masked_fill(g, eq(g.detach(), 0), 1);  // eq. 7; 0 where no key is seen
}

Tensor fastmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                         const FastmaxParams& params) {
  check_qkv(q, k, v, padding_mask);
  return matmul(fastmax_reference_weights(q, k, padding_mask, params), without_padding(v, padding_mask));  // eq. 12
}

}  // namespace linnet::detail
