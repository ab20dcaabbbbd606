#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Informer's ProbSparse attention: the few queries whose scores are farthest from uniform get softmax attention, and
/// all others get the mean of the values. A random sample of the keys decides which queries these are.
///
/// Source: Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting".

namespace linnet {

/// Options of informer_attention.
struct InformerAttentionOptions {
  int64_t factor = 5;   ///< c of informer_queries, at least 1
  int64_t queries = 0;  ///< how many queries are chosen; 0: as many as informer_queries says
  /// Bool [B, N]: false where a token is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// The keys to sample for each query, int64 [N, u] or [B, N, u], none of them padding. If defined, no keys are
  /// drawn, u queries are chosen, and `factor` and `queries` are ignored.
  Tensor samples = {};
  /// The rate, in [0, 1], at which weights of the chosen queries are dropped after normalisation, as in
  /// softmax_attention.
  double dropout = 0;
  /// Draws the samples, unless all queries are chosen: one draw for every 16 samples of a query. Then draws the
  /// dropout mask: one draw. The samples of a token depend on its number among the tokens that are not padding, so
  /// more padding does not change them.
  Generator* generator = nullptr;
};

/// u = min(N, c·⌈ln N⌉), but at least 1: how many of N queries Informer chooses, and how many keys it samples for
/// each.
///
/// Throws: ValueError for a factor below 1.
/// Source: Zhou et al. 2021, section 3.2; the factor times the ceiling, as in the authors' code.
int64_t informer_queries(int64_t tokens, int64_t factor = 5, Where where = {});

/// Softmax attention for u queries and the mean of the values for the others. For each query u keys are drawn with
/// replacement, one set for all heads, and M_i = max_j q_i·k_j − (Σ_j q_i·k_j)/N over them. For each head the u
/// queries with the largest M are chosen, the earlier ones among equals. M has no gradient.
///
/// N counts only the tokens that are not padding, and u follows from it. Padding is neither drawn nor chosen. A
/// sequence of padding alone gives 0 and has no gradient. If all queries of all sequences are chosen, the result is
/// softmax_attention's. There is no causal form, because whether a query is chosen depends on later queries.
///
/// Shapes: q, k and v [B, H, N, D] → [B, H, N, D], in memory [B, N, H, D].
/// Dtypes: one floating dtype. For bfloat16, M and the mean are float32.
/// Gradient: once (fused).
/// Cost: time O(B·H·N·u·D), memory linear in the tokens. The sampled scores are computed without a tape, for some
/// queries at a time.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for an option out of range and where a generator is
/// missing; IndexError for samples outside [0, N).
/// Source: Zhou et al. 2021, eqs. 3 and 4.
Tensor informer_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const InformerAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights with which informer_attention sums the values, for the same draws: the rows of chosen
/// queries are those of softmax_attention_weights, and the others hold 1/N. Rows sum to 1, or to 0 where a whole
/// sequence is padding. For inspection: dropout is not applied.
///
/// Shapes: q, k [B, H, N, D] → [B, H, N, N].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N²·D), memory O(B·H·N²).
/// Throws: as informer_attention.
/// Source: Zhou et al. 2021, eqs. 3 and 4.
Tensor informer_attention_weights(const Tensor& q, const Tensor& k, const InformerAttentionOptions& options = {},
                                  Where where = {});

}  // namespace linnet
