#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Informer's ProbSparse attention: the few queries whose scores are farthest from uniform get softmax attention, all
/// others the mean of the values. A sample of the keys tells which queries these are.
///
/// Source: Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting".

namespace linnet {

/// How informer_attention weighs.
struct InformerAttentionOptions {
  int64_t factor = 5;   ///< c of informer_queries, at least 1
  int64_t queries = 0;  ///< how many queries are chosen, instead of informer_queries; 0 for that
  /// Bool [B, N]: false where a token is padding. Undefined: none is. PyTorch's key_padding_mask means the opposite.
  Tensor padding_mask = {};
  /// The keys to sample for each query, int64 [N, u] or [B, N, u], none of them padding, instead of drawn ones. As
  /// many queries are chosen, and `factor` and `queries` are ignored.
  Tensor samples = {};
  /// The rate, in [0, 1], at which weights of the chosen queries are dropped after normalisation, as in
  /// softmax_attention.
  double dropout = 0;
  /// Draws the samples, with one draw for every 16 of a query, unless all queries are chosen, and then the mask of
  /// the dropout, with one. Samples of a token depend on its number among those that are not padding, so that they
  /// are the same in a longer batch.
  Generator* generator = nullptr;
};

/// u = min(N, c·⌈ln N⌉), but at least 1: how many of N queries Informer chooses, and how many keys it samples for
/// each.
///
/// Throws: ValueError for a factor below 1.
/// Source: Zhou et al. 2021, section 3.2; the factor times the ceiling, as in the authors' code.
int64_t informer_queries(int64_t tokens, int64_t factor = 5, Where where = {});

/// Softmax attention for u queries and the mean of the values for the others. For each query u keys are drawn with
/// replacement, one set for all heads, and M_i = max_j q_i·k_j − (Σ_j q_i·k_j)/N over them. The u queries with the
/// largest M are chosen for each head, of equal ones the earlier. M has no gradient.
///
/// All N, and with them u, are the numbers of tokens that are not padding, which is never drawn nor chosen. A
/// sequence of padding alone gives 0 and has no gradient. Where u is the length of the batch, all rows are
/// softmax_attention. There is no causal form, because whether a query is chosen depends on later ones.
///
/// Shapes: q, k and v [B, H, N, D] → [B, H, N, D], in memory [B, N, H, D].
/// Dtypes: one floating dtype. For bfloat16, M and the mean are float32.
/// Gradient: once (fused).
/// Cost: time O(B·H·N·u·D), memory linear in the tokens. The sampled scores are computed without a tape, some queries
/// at a time.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for an option out of range and where a generator is
/// missing; IndexError for samples outside [0, N).
/// Source: Zhou et al. 2021, eqs. 3 and 4.
Tensor informer_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const InformerAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights with which informer_attention sums the values, for the same draws: those of
/// softmax_attention_weights in chosen rows, 1/N in the others. Rows sum to 1, or to 0 where a sequence is padding
/// alone. For inspection: dropout is not applied.
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
