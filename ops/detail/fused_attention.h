#pragma once

#include <utility>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/attention/attention.h>

/// The attentions with kernels of their own.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D]; `padding_mask` undefined or [B, M].
/// Dtypes: one floating dtype; `padding_mask` is bool.
/// Gradient: once (fused).
/// Throws: ShapeError, DTypeError, DeviceError.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Keys that queries [B, H, N, D] see, with their values.
struct KeySet {
  Tensor k, v;               ///< [B, H, M, D], or [B, H, T, D] with `positions`
  Tensor padding_mask = {};  ///< undefined, or bool [B, M] or [B, H, M]: false where a key is padding
  /// Undefined, or int64 [B or 1, H or 1, N, 2], the begin and end for each query: query i sees keys [begin, end).
  /// Neither decreases with i.
  Tensor ranges = {};
  /// Undefined, or int64 [B or 1, H or 1, M]: the set has rows `positions` of k and v. Forward and backward each copy
  /// these rows, so that no copy is kept in between. Such sets come before all others of the same k and v, so that
  /// the copies are freed before the gradients of the others need memory.
  Tensor positions = {};
  RandomKey dropout_rng = {};  ///< for dropout of the weights
};

/// The rows [first, first + count) of some queries, and the keys that they see.
struct QueryRows {
  Tensor q;  ///< [B, H, N, D]
  int64_t first, count;
  std::vector<KeySet> sets;

  /// All rows of q.
  static QueryRows all(const Tensor& q, std::vector<KeySet> sets) { return {q, 0, q.size(2), std::move(sets)}; }
};

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij) with s_ij = scale · q_i·k_j, over the keys that query i sees in all of its
/// sets. Only softmax may have several sets. It computes softmax_attention and its sparse forms, and the quadratic
/// form of Fastmax. A part makes the rows [first, first + count) of the result; the parts, in any order, make each
/// row once.
///
/// Shapes: q [B, H, N, D] of each part → [B, H, rows of all parts, D].
/// Cost: for each set and tile of queries, time for the tiles of keys that some of these queries see.
Tensor quadratic_attention(const std::vector<QueryRows>& parts, const AttentionParams& params);

/// quadratic_attention with the weights of softmax. Each set takes one draw for its own dropout, in their order.
/// `options.padding_mask` is not used, since each set has its own, nor is `attn_mask`.
///
/// Throws: ValueError for a scale that is not finite.
Tensor softmax_over(std::vector<QueryRows> parts, const SoftmaxAttentionOptions& options);

/// The factorised form of Fastmax (Gerami et al. 2024, eqs. 24–35), for tensors that are not empty.
Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params);

}  // namespace detail
}  // namespace linnet
