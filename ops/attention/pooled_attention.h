#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Attention to pools of tokens, the second level of Poolingformer.
///
/// Source: Zhang et al. 2021, "Poolingformer: Long Document Modeling with Pooling Attention".

namespace linnet {

/// How tokens are pooled. Pool p has the tokens p·stride … p·stride + kernel − 1, cut at the last token and without
/// padding. There are ⌈N/stride⌉ pools.
struct TokenPooling {
  /// How the tokens of a pool become one vector.
  enum class Kind {
    mean,         ///< the mean
    max,          ///< the maximum of each entry
    convolution,  ///< a weighted mean, the paper's light dynamic convolution: weights softmax(W·x_c)
  };
  Kind kind = Kind::convolution;  ///< how the tokens of a pool become one vector
  int64_t kernel = 5;             ///< κ
  int64_t stride = 4;             ///< ξ
  /// W [kernel, D] for Kind::convolution, one map for all heads; x_c is the pool's token nearest to its centre,
  /// the earlier of two.
  Tensor weight = {};
};

/// The pools of x. A pool of padding alone is 0.
///
/// Shapes: x [B, H, N, D], `padding_mask` [B, N] or undefined → [B, H, P, D].
/// Dtypes: one floating dtype; `padding_mask` is bool, false where a token is padding.
/// Gradient: any number of times.
/// Cost: kernel / stride passes over x.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a kernel or stride below 1, and a convolution without
/// `weight`.
Tensor pool_tokens(const Tensor& x, const TokenPooling& pooling, const Tensor& padding_mask = {}, Where where = {});

/// Options of pooled_attention: how tokens are pooled, and which pools a query sees.
struct PooledAttentionOptions {
  TokenPooling keys = {};    ///< how keys are pooled
  TokenPooling values = {};  ///< how values are pooled, with the kernel and stride of `keys`
  /// w2: query i sees the pools whose centre, p·stride + (kernel − 1)/2, is at most w2/2 away.
  int64_t window = 512;
  /// Query i sees only pools that end at token i or before it. The last pools, which are cut at the last token, count
  /// with their whole kernel, so no query sees them.
  bool causal = false;
  /// The factor of q·k; 1/√D when not given.
  std::optional<double> scale = {};
  /// Bool [B, N]: false where a token is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// The rate, in [0, 1], at which weights are dropped after normalisation. Kept weights are scaled by
  /// 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Draws the dropout mask. Unused without dropout.
  Generator* generator = nullptr;
};

/// o_i = Σ_p softmax_p(scale · q_i·k̄_p) v̄_p over the pools that query i sees, with the pools k̄ and v̄ of keys and
/// values. A query that sees no pool gives 0 and has no gradient.
///
/// Shapes: q, k and v [B, H, N, D] → [B, H, N, D].
/// Dtypes: one floating dtype.
/// Gradient: once (fused).
/// Cost: time O(B·H·N·(w2/stride)·D), memory apart from the result linear in the tokens.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a window below 0, values that are pooled with another
/// kernel or stride than keys, a scale or dropout out of range, and as pool_tokens.
/// Source: Zhang et al. 2021, section 3.
Tensor pooled_attention(const Tensor& q, const Tensor& k, const Tensor& v, const PooledAttentionOptions& options = {},
                        Where where = {});

/// The weights of tokens in pooled_attention: the weight of each pool times the weights of its tokens in the pool of
/// values. For Kind::max the tokens of a pool have equal weights. Rows sum to 1, or to 0 where a query sees no pool.
/// For inspection: dropout is not applied.
///
/// Shapes: q, k and v [B, H, N, D] → [B, H, N, N].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N²·D), memory O(B·H·N²).
/// Throws: as pooled_attention.
Tensor pooled_attention_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                const PooledAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
