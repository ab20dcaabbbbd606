#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// FAVOR+, the attention of Performers: an estimate of softmax attention whose weights are products of positive
/// random features, φ(q_i)·φ(k_j), so that one sum over the keys serves all queries.
///
/// With x' = x/D^¼ and rows ω_r of a random matrix Ω [m, D], φ_r(x) = m^(−½) exp(ω_r·x' − ‖x'‖²/2). The expectation
/// of φ(q)·φ(k) over Ω is exp(q·k/√D), the weight of softmax attention.
///
/// Source: Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1 and section 2.4.

namespace linnet {

/// How performer_attention is computed.
enum class PerformerForm {
  automatic,  ///< fused kernels on a CPU; `composed` on a GPU, which has no such kernels
  composed,   ///< composed of other ops
  reference,  ///< weight by weight, from the logarithms of the features
};

/// Options of performer_attention.
struct PerformerAttentionOptions {
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// Bool [B, M]: false where a key is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  PerformerForm form = PerformerForm::automatic;  ///< how it is computed
  /// The rate, in [0, 1), at which whole queries and keys are dropped: the weight of a pair is multiplied by a factor
  /// for its query and one for its key, each 0 or the inverse of the keep rate. The denominator is that without
  /// dropout. A dropped query gives 0.
  double dropout = 0;
  /// Draws the factors of keys, then those of queries: two draws when there is dropout, none otherwise.
  Generator* generator = nullptr;
};

/// The random matrix Ω, in blocks of `width` rows. The rows of a block are orthogonal to each other. Each row has the
/// direction of a vector of normal numbers, and independently the length of another such vector. The last block is
/// cut where `width` does not divide `features`.
///
/// The directions of a block are Haar distributed, because Gram–Schmidt makes them. The columns of a Householder QR
/// would need their signs corrected, or the estimate of the weights would be biased.
///
/// Shapes: [features, width].
/// Dtypes: floating. The numbers are computed in float64.
/// Gradient: none.
/// Cost: one draw, and time O(features·width²) on the CPU.
/// Throws: ValueError for sizes below 1; DTypeError for other dtypes.
/// Source: Choromanski et al. 2021, section 2.4.
Tensor performer_projection(int64_t features, int64_t width, Generator& generator, DType dtype = DType::float32,
                            Device device = Device::cpu, Where where = {});

/// The number of features that performer_attention needs for heads of `width` numbers: ⌊D ln D⌋, at least 1.
///
/// Source: Choromanski et al. 2021, theorem 4: of the order of D ln D.
int64_t performer_features(int64_t width);

/// log(√m φ_r(x)) = ω_r·x' − ‖x'‖²/2, the logarithms of the features up to a constant.
///
/// Shapes: x [..., D], `omega` [m, D] → [..., m].
/// Dtypes: one floating dtype.
/// Gradient: any number of times.
/// Throws: ShapeError, DTypeError, DeviceError.
/// Source: Choromanski et al. 2021, lemma 1.
Tensor performer_log_features(const Tensor& x, const Tensor& omega, Where where = {});

/// o_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j), exactly, for a given Ω. Nothing is added to features or
/// denominators.
///
/// The exponents of keys are taken relative to the largest one of each feature, over the keys that are seen, and
/// those of queries relative to the largest one of each query. Then inputs of any size give finite numbers, and every
/// denominator is at least about 1. Masks act as in softmax_attention: a query that sees no key gives 0 and has no
/// gradient.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D], `omega` [m, D] → [B, H, N, D].
/// Dtypes: one floating dtype; `omega` is float32 for bfloat16, and weights and sums are too.
/// Gradient: of q, k and v: once in the fused form of a CPU, any number of times otherwise. `omega` is a constant.
/// Cost: time O((N + M)·m·D). Memory apart from the result is linear in the tokens: (N + M)·D in the fused form,
/// (N + M)·m in the composed one, times log N when causal.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a dropout out of range.
/// Source: Choromanski et al. 2021, lemma 1.
Tensor performer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                           const PerformerAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j) with which performer_attention sums the values. Rows
/// sum to 1, or to 0 where a query sees no key. For inspection: `dropout` and `form` are ignored.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D], `omega` [m, D] → [B, H, N, M].
/// Dtypes: one floating dtype, and `omega` as in performer_attention; float32 for bfloat16.
/// Gradient: of q and k, any number of times.
/// Cost: time O(N·M·m), memory O(N·M), and O(N·M·m) where gradients are tracked.
/// Throws: ShapeError, DTypeError, DeviceError.
Tensor performer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& omega,
                                   const PerformerAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
