#pragma once

#include <optional>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Longformer's attention: each token sees the tokens near it, and a few global tokens see all and are seen by all.
///
/// Source: Beltagy et al. 2020, "Longformer: The Long-Document Transformer".

namespace linnet {

/// Options of longformer_attention: which tokens see which.
struct LongformerAttentionOptions {
  /// w, an even number: token i sees itself and w/2 tokens on each side, those at |i − j| ≤ (w/2)·dilation whose
  /// distance is a multiple of the dilation. When causal, it sees those at 0 ≤ i − j ≤ w·dilation.
  int64_t window = 256;
  /// One dilation for all heads, or one for each head.
  std::vector<int64_t> dilation = {1};
  /// How many tokens are global: the first ones of each sequence.
  int64_t global_tokens = 1;
  /// Bool [B, N]: true where a token is global. If defined, it replaces `global_tokens`.
  Tensor global_mask = {};
  /// Token i sees no token after it, global ones included.
  bool causal = false;
  /// The factor of q·k; 1/√D when not given.
  std::optional<double> scale = {};
  /// Bool [B, N]: false where a token is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// The rate, in [0, 1], at which weights are dropped after normalisation. Kept weights are scaled by
  /// 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Draws the dropout masks. Unused without dropout.
  Generator* generator = nullptr;
};

/// o_i = Σ_j softmax_j(scale · q_i·k_j) v_j over the keys that token i sees. The rows of global tokens use separate
/// queries, keys and values.
///
/// The row of a global token is the attention of its query in `q_global` to all of `k_global` and `v_global`. Any
/// other token sees the tokens of its window and the global tokens, by q, k and v; a token that is both counts once.
/// No token sees padding. A row that sees no key is 0 and has no gradient.
///
/// Shapes: q, k, v, k_global and v_global [B, H, N, D], q_global [B, H, G, D] for the global tokens in the order of
/// their positions, where G is the largest number of them in a sequence. A sequence with fewer does not use the other
/// rows of q_global. With G = 0 the three may be undefined. → [B, H, N, D].
/// Dtypes: one floating dtype.
/// Gradient: once (fused).
/// Cost: time O(B·H·N·(w + G)·D), memory apart from the result linear in the tokens. A dilation above 1 and a
/// `global_mask` copy the inputs; `global_mask` is read on the host.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a window that is odd or negative, a dilation below 1,
/// a negative number of global tokens, a scale or dropout out of range.
/// Source: Beltagy et al. 2020, section 3.1.
Tensor longformer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_global,
                            const Tensor& k_global, const Tensor& v_global,
                            const LongformerAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights with which longformer_attention sums the values: those of `v_global` in the rows of
/// global tokens, and those of `v` in the others. Rows sum to 1, or to 0 where a token sees no token. For inspection:
/// dropout is not applied.
///
/// Shapes: q, k and k_global [B, H, N, D], q_global [B, H, G, D] → [B, H, N, N].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N²·D), memory O(B·H·N²).
/// Throws: as longformer_attention.
Tensor longformer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& q_global, const Tensor& k_global,
                                    const LongformerAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
