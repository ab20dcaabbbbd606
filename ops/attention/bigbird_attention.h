#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// BigBird's attention: blocks of tokens see their neighbours, the first and the last block, and some random ones.
///
/// Source: Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences".

namespace linnet {

/// Options of bigbird_attention: which tokens see which.
struct BigBirdAttentionOptions {
  int64_t block = 16;  ///< tokens of a block; the last block may have fewer
  /// int64 [H, blocks − 2, r] on the CPU: the random blocks that each block sees, except for the first and the last
  /// block, as bigbird_random_blocks draws them. Undefined: none.
  Tensor random_blocks = {};
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

/// Draws random blocks: for each head and each block except the first and the last, `count` different blocks,
/// uniformly among those that the block does not see anyway. The draws depend on `key` alone. There are none where
/// bigbird_attention is dense.
///
/// Shapes: [H, blocks − 2, count], or [H, 0, count].
/// Dtypes: int64, on the CPU.
/// Throws: ValueError for a block below 1, and a negative number of tokens, heads or blocks.
Tensor bigbird_random_blocks(int64_t tokens, int64_t block, int64_t count, int64_t heads, RandomKey key,
                             Where where = {});

/// o_i = Σ_j softmax_j(scale · q_i·k_j) v_j over the tokens of the blocks that token i's block sees: itself, the
/// block before and after, the first, the last and the random ones, each once. The first and the last block see all
/// blocks.
///
/// With r random blocks, a sequence of at most 5 + 2r blocks is dense: it gets softmax attention, as in the reference
/// implementation.
///
/// Shapes: q, k and v [B, H, N, D] → [B, H, N, D].
/// Dtypes: one floating dtype.
/// Gradient: once (fused).
/// Cost: time O(B·H·N·(5 + r)·block·D); memory linear in the tokens: a copy of the keys and values of the random
/// blocks, r times those of k and v.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a block below 1, a scale or dropout out of range, and
/// a random block that does not exist or is seen anyway.
/// Source: Zaheer et al. 2020, section 2; block-sparse form in appendix D.
Tensor bigbird_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const BigBirdAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights with which bigbird_attention sums the values. Rows sum to 1, or to 0 where a token sees
/// no token. For inspection: dropout is not applied.
///
/// Shapes: q and k [B, H, N, D] → [B, H, N, N].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N²·D), memory O(B·H·N²).
/// Throws: as bigbird_attention.
Tensor bigbird_attention_weights(const Tensor& q, const Tensor& k, const BigBirdAttentionOptions& options = {},
                                 Where where = {});

}  // namespace linnet
