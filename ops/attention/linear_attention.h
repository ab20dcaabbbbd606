#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/fastmax/fastmax.h>

/// Linear attention: the weight of a key is a product of features, φ(q_i)·φ(k_j), so that one sum over the keys
/// serves all queries.
///
/// Source: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with Linear
/// Attention".

namespace linnet {

/// Options of linear_attention.
struct LinearAttentionOptions {
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// Bool [B, M]: false where a key is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// One of the forms of Fastmax, whose kernels it shares: its weights are Fastmax's weights of φ(q) and φ(k) with
  /// the coefficients 0, 1 and 0 (FastmaxOptions::coefficients). `reference` has no dropout.
  FastmaxForm form = FastmaxForm::automatic;
  /// The rate, in [0, 1), at which whole queries and keys are dropped, as in FastmaxDropout::token: the weight of a
  /// pair is multiplied by a factor for its query and one for its key, each 0 or the inverse of the keep rate. The
  /// rate is rounded as FastmaxOptions::dropout is. The denominator is that without dropout. A dropped query gives 0.
  /// No mask is stored: backward draws it again.
  double dropout = 0;
  /// Draws the dropout masks: two draws when there is dropout, none otherwise.
  Generator* generator = nullptr;
};

/// φ(x) = elu(x) + 1: x + 1 above 0 and eˣ below, but at least 1e-30, so that no denominator is 0.
///
/// Dtypes: floating.
/// Gradient: any number of times; eˣ below 0, even where φ is raised to 1e-30.
/// Cost: one pass over the elements, forward and backward.
/// Throws: DTypeError for other dtypes.
/// Source: Katharopoulos et al. 2020, eq. 7.
Tensor linear_attention_features(const Tensor& x, Where where = {});

/// o_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j), with φ of linear_attention_features. Nothing is added to the
/// denominator.
///
/// Masks act as in softmax_attention: a query that sees no key gives 0 and has no gradient. The features of a query
/// are divided by their sum, which changes no result, so that products of small features stay in float32's range.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D] → [B, H, N, D], in memory [B, N, H, D].
/// Dtypes: one floating dtype. For bfloat16, weights and sums are float32.
/// Gradient: once (fused); any number of times with FastmaxForm::reference.
/// Cost: time O((N + M)·D²) in the factorised form, and O(N·M·D) in the quadratic form, which is used for short
/// sequences. Memory apart from the result is linear in the tokens.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a dropout out of range, or with the reference form.
/// Source: Katharopoulos et al. 2020, eqs. 4–12.
Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearAttentionOptions& options = {},
                        Where where = {});

/// The matrix of the weights φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j) with which linear_attention sums the values. Rows sum
/// to 1, or to 0 where a query sees no key. For inspection: `dropout` and `form` are ignored.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D] → [B, H, N, M].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(N·M·D), memory O(N·M).
/// Throws: ShapeError, DTypeError, DeviceError.
/// Source: Katharopoulos et al. 2020, eq. 4.
Tensor linear_attention_weights(const Tensor& q, const Tensor& k, const LinearAttentionOptions& options = {},
                                Where where = {});

}  // namespace linnet
