#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/performer_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/performer.h>
#include <linnet/ops/matmul/matmul.h>

/// FAVOR+ (Choromanski et al. 2021), composed of other ops.

namespace linnet::detail {
namespace {

/// Stands for −∞ where no key is seen. It is finite, so that the difference of two of them is 0 and not NaN.
constexpr double kLowest = -1e30;

/// The largest along `dim`, without gradient: it cancels in the result.
Tensor largest(const Tensor& x, int64_t dim) { return maximum(max(x.detach(), {dim}, true), kLowest); }

/// F / g of [F, g] = [..., D + 1]; 0 where g is 0, because no key is seen.
Tensor quotient(const Tensor& sums) {
  const int64_t width = sums.size(-1) - 1;
  const Tensor g = sums.narrow(-1, width, 1);
  return sums.narrow(-1, 0, width) / masked_fill(g, eq(g.detach(), 0), 1);
}

/// All queries see all keys: F_i = Σ_r exp(a_ir + M_r − c_i) Σ_n exp(b_nr − M_r) [v_n, 1].
Tensor attend(const Tensor& a, const Tensor& b, const Tensor& values) {
  const Tensor most = largest(b, 2), shifted = a + most;
  const Tensor sums = matmul(transpose(exp(b - most)), values);
  return quotient(matmul(exp(shifted - largest(shifted, 3)), sums));
}

/// Pairs of neighbouring blocks of `half` tokens: x [B, H, T, …] as [B, H, T/(2·half), 2, half, …].
struct Halves {
  int64_t half;

  Tensor pairs(const Tensor& x) const {
    return x.reshape({x.size(0), x.size(1), x.size(2) / (2 * half), 2, half, x.size(3)});
  }
  Tensor first(const Tensor& x) const { return pairs(x).select(3, 0); }
  Tensor second(const Tensor& x) const { return pairs(x).select(3, 1); }
  /// x for the second blocks, and `value` for the first.
  Tensor with_first(const Tensor& x, double value) const {
    const Shape& size = x.shape();
    return stack({full_like(x, value), x}, 3).reshape({size[0], size[1], 2 * size[2] * size[3], size[4]});
  }
};

/// Query i sees keys up to i. Queries and keys have T tokens, a power of 2. The prefix of a query is its own token
/// and, for each power of two, the block before its own if its own is the second of a pair. Each block has maxima M_r
/// of its own keys, so later keys do not matter. All sums of a query are relative to one c_i.
Tensor attend_causally(const Tensor& a, const Tensor& b, const Tensor& values) {
  const int64_t tokens = a.size(2);
  const Tensor own = a + b;
  Tensor c = largest(own, 3);
  std::vector<Tensor> most;
  for (int64_t half = 1; half < tokens; half *= 2) {
    const Halves blocks{half};
    most.push_back(largest(blocks.first(b), 3));
    c = maximum(c, blocks.with_first(largest(blocks.second(a.detach()) + most.back(), 4), kLowest));
  }
  Tensor sums = sum(exp(own - c), {3}, true) * values;
  for (size_t i = 0; i < most.size(); ++i) {
    const Halves blocks{int64_t{1} << i};
    const Tensor keys = exp(blocks.first(b) - most[i]);
    const Tensor queries = exp(blocks.second(a) + most[i] - blocks.second(c));
    const Tensor state = matmul(transpose(keys), blocks.first(values));
    sums = sums + blocks.with_first(matmul(queries, state), 0);
  }
  return quotient(sums);
}

/// x with tokens of `value` in front, so that there are `tokens` tokens.
Tensor with_tokens(const Tensor& x, int64_t tokens, double value) {
  return pad(x, {0, 0, tokens - x.size(2), 0}, value);
}

}  // namespace

Tensor composed_performer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                          const Tensor& padding_mask, bool causal) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const Tensor a = performer_query_exponents(q, omega);
  Tensor b = performer_log_features(without_padding(k, padding_mask), omega);
  if (padding_mask.defined()) b = masked_fill(b, logical_not(padding_mask).unsqueeze(1).unsqueeze(-1), kNever);
  const Tensor x = without_padding(v, padding_mask);
  const Tensor values = concat({x, ones_like(x.narrow(-1, 0, 1))}, -1);
  if (!causal) return attend(a, b, values);
  const int64_t queries = q.size(2), keys = k.size(2);
  const auto tokens = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(queries, keys))));
  const Tensor all =
      attend_causally(with_tokens(a, tokens, 0), with_tokens(b, tokens, kNever), with_tokens(values, tokens, 0));
  return all.narrow(2, tokens - queries, queries);
}

Tensor reference_performer_weights(const Tensor& q, const Tensor& k, const Tensor& omega, const Tensor& padding_mask,
                                   bool causal) {
  constexpr int64_t kElements = int64_t{1} << 22;  // how many sums of exponents are in memory at a time
  const Tensor a = performer_query_exponents(q, omega);
  const Tensor b = performer_log_features(without_padding(k, padding_mask), omega);
  const int64_t queries = q.size(2), row = std::max(b.numel(), int64_t{1});
  const int64_t block = std::clamp(kElements / row, int64_t{1}, std::max(queries, int64_t{1}));
  std::vector<Tensor> rows;
  for (int64_t i = 0; i == 0 || i < queries; i += block) {
    const Tensor some = a.narrow(2, i, std::min(block, queries - i)).unsqueeze(3);
    rows.push_back(logsumexp(some + b.unsqueeze(2), {-1}));
  }
  return masked_softmax(concat(rows, 2), unseen(queries, k.size(2), padding_mask, causal, q.device()));
}

}  // namespace linnet::detail
