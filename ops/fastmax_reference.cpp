#include <linnet/ops/detail/fastmax_reference.h>

#include <linnet/ops/arithmetic.h>
#include <linnet/ops/compare.h>
#include <linnet/ops/creation.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/math.h>
#include <linnet/ops/matmul.h>
#include <linnet/ops/reduction.h>

namespace linnet::detail {
namespace {

/// Eqs. 5 and 6.
Tensor standardised(const Tensor& x) {
  const Tensor centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5);
}

/// Bool [N, M]: whether query i, one of the last of the M positions, comes before key j.
Tensor from_the_future(int64_t queries, int64_t keys, Device device) {
  const Tensor i = arange(keys - queries, keys).unsqueeze(1), j = arange(keys).unsqueeze(0);
  return gt(j, i).to(device);
}

}  // namespace

Tensor fastmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                         const FastmaxKernel& kernel) {
  check_qkv(q, k, v, keep);
  const Tensor padding = keep.defined() ? logical_not(keep).unsqueeze(1).unsqueeze(-1) : Tensor();
  const auto without_padding = [&](const Tensor& x) { return padding.defined() ? masked_fill(x, padding, 0) : x; };
  const auto normalised = [&](const Tensor& x) { return kernel.standardise ? standardised(x) : x; };

  const Tensor s = matmul(normalised(q), transpose(normalised(without_padding(k))));
  Tensor f = kernel.a0 + s * (kernel.a1 + kernel.a2 * s);  // eq. 8
  if (padding.defined()) f = masked_fill(f, transpose(padding), 0);
  if (kernel.causal) f = masked_fill(f, from_the_future(q.size(2), k.size(2), q.device()), 0);
  const Tensor g = sum(f, {-1}, true);
  return matmul(f, without_padding(v)) / masked_fill(g, eq(g.detach(), 0), 1);  // eq. 12; 0 where no key is seen
}

}  // namespace linnet::detail
