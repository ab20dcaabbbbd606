#include <linnet/ops/detail/fastmax_factorised.h>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/fastmax_reference.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

/// Eqs. 22 and 23 sum f(q̂_i·k̂_n) over the keys n for each query i: N·M terms. Written out, f(q̂·k̂) is a sum of
/// products of one factor from the query and one from the key, so the order of the sums can be exchanged (eqs. 24 and
/// 25). The sums x and y over the keys are then computed once, for all queries.

namespace linnet::detail {
namespace {

/// The sums of `terms` [B, H, M, …] over the keys that each query sees: [B, H, N, …], or [B, H, 1, …] where all
/// queries see all keys. When causal, query i sees keys up to i + (M − N), where a negative index means no key.
Tensor sums_over_keys(const Tensor& terms, int64_t queries, bool causal) {
  if (!causal) return sum(terms, {2}, true);  // [FAST eq.28] [FAST eq.29]
  Shape none = terms.shape();
  none[2] = queries;
  const Tensor prefixes = cumsum(terms, 2);  // [FAST eq.34] [FAST eq.35]
  return concat({zeros(none, terms.dtype(), terms.device()), prefixes}, 2).narrow(2, terms.size(2), queries);
}

}  // namespace

Tensor factorised_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                          const FastmaxParams& params) {
  check_qkv(q, k, v, padding_mask);
  const int64_t queries = q.size(2), width = q.size(3);
  const auto normalised = [&](const Tensor& x) {
    return params.map == RowMap::standardise ? fastmax_standardised(x) : x;
  };
  const Tensor q_hat = normalised(q), k_hat = normalised(without_padding(k, padding_mask));
  // The paper's y is x for values of 1, and g is f for them: one more column of v computes both.
  const Tensor one = ones({k.size(0), k.size(1), k.size(2), 1}, v.dtype(), v.device());
  const Tensor v1 = without_padding(concat({v, one}, 3), padding_mask);

  const Tensor x1 = sums_over_keys(v1, queries, params.causal);
  const Tensor x2 = sums_over_keys(einsum("bhnm,bhnj->bhnmj", k_hat, v1), queries, params.causal);
  // In full [FAST eq.24] [FAST eq.25] as [FAST eq.26] [FAST eq.27], causal [FAST eq.30] [FAST eq.31] as [FAST eq.32]
  // [FAST eq.33]. The paper omits a2 = ½, the coefficient of s² in eq. 8.
  Tensor f = params.a0 * x1 + params.a1 * einsum("bhim,bhimj->bhij", q_hat, x2);
  if (params.a2 != 0) {
    const Tensor x3 = sums_over_keys(einsum("bhnm,bhnl,bhnj->bhnmlj", {k_hat, k_hat, v1}), queries, params.causal);
    f = f + params.a2 * einsum("bhim,bhil,bhimlj->bhij", {q_hat, q_hat, x3});
  }
  const Tensor g = f.narrow(3, width, 1);
  return f.narrow(3, 0, width) / masked_fill(g, eq(g.detach(), 0), 1);  // [FAST eq.19]; 0 where no key is seen
}

}  // namespace linnet::detail
