#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Linformer's attention: keys and values are projected along the tokens, from M of them to K slots, and each query
/// attends to the slots.
///
/// Source: Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity".

namespace linnet {

/// Options of linformer_attention.
struct LinformerAttentionOptions {
  /// Bool [B, M]: false where a key is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// The rate, in [0, 1], at which the weights of slots are dropped after normalisation, as in softmax_attention.
  double dropout = 0;
  /// Draws the dropout mask: one draw when there is dropout, none otherwise.
  Generator* generator = nullptr;
  /// The factor of scores; 1/√D when not given.
  std::optional<double> scale = {};
};

/// o = softmax(scale · q·(E k)ᵀ) · F v, where E = `e` and F = `f` sum over the tokens. With fewer tokens than E and F
/// have columns, only the first columns are used.
///
/// Padded keys and values count as 0, whatever they hold. No slot is masked, except where all keys of a sequence are
/// padding: its queries give 0 and have no gradient. There is no causal form, because each slot is a sum over all
/// tokens.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D], e and f [K, L] with L ≥ M → [B, H, N, D], in memory [B, N, H, D].
/// Dtypes: one floating dtype; for bfloat16 q, k and v, e and f are float32 and rounded for the products.
/// Gradient: once (fused).
/// Cost: time O(B·H·(N + M)·K·D), memory linear in the tokens.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for more tokens than e has columns, and for a scale or
/// dropout out of range.
/// Source: Wang et al. 2020, eq. 7.
Tensor linformer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& e, const Tensor& f,
                           const LinformerAttentionOptions& options = {}, Where where = {});

/// The matrix softmax(scale · q·(E k)ᵀ) · F of the weights with which linformer_attention sums the values. They may
/// be negative, and a row may have any sum. For inspection: dropout is not applied.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D], e and f [K, L] with L ≥ M → [B, H, N, M].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N·M·K), memory O(B·H·N·M).
/// Throws: as linformer_attention.
/// Source: Wang et al. 2020, eq. 7.
Tensor linformer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& e, const Tensor& f,
                                   const LinformerAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
