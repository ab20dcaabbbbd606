#include <linnet/ops/detail/fastmax_reference.h>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::detail {

Tensor fastmax_standardised(const Tensor& x) {
  const Tensor centred = x - mean(x, {-1}, true);                    // [FAST eq.5]
  return centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5);  // [FAST eq.6]
}

Tensor fastmax_reference_weights(const Tensor& q, const Tensor& k, const Tensor& padding_mask,
                                 const FastmaxParams& params) {
  const auto normalised = [&](const Tensor& x) {
    return params.map == RowMap::standardise ? fastmax_standardised(x) : x;
  };
  const Tensor s = matmul(normalised(q), transpose(normalised(without_padding(k, padding_mask))));
  Tensor f = params.a0 + s * (params.a1 + params.a2 * s);  // [FAST eq.8]
  const Tensor hidden = unseen(q.size(2), k.size(2), padding_mask, params.causal, q.device());
  if (hidden.defined()) f = masked_fill(f, hidden, 0);
  const Tensor g = sum(f, {-1}, true);
  return f / masked_fill(g, eq(g.detach(), 0), 1);  // [FAST eq.7]; 0 where no key is seen
}

Tensor fastmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                         const FastmaxParams& params) {
  check_qkv(q, k, v, padding_mask);
  const Tensor weights = fastmax_reference_weights(q, k, padding_mask, params);  // [FAST eq.9]
  return matmul(weights, without_padding(v, padding_mask));                      // [FAST eq.11] [FAST eq.12]
}

}  // namespace linnet::detail
