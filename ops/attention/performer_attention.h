#pragma once

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// FAVOR+, the attention of Performers: an estimate of softmax attention whose weights are products of positive
/// random features, φ(q_i)·φ(k_j), so that all keys are summed once for all queries.
///
/// With x' = x/D^¼ and rows ω_r of a random matrix Ω [m, D], φ_r(x) = m^(−½) exp(ω_r·x' − ‖x'‖²/2). The expectation
/// of φ(q)·φ(k) over Ω is exp(q·k/√D), the weight of softmax attention.
///
/// Source: Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1 and section 2.4.

namespace linnet {

/// How performer_attention is computed.
enum class PerformerForm {
  automatic,  ///< by fused kernels on a CPU, and `composed` on a GPU, which has none
  composed,   ///< of other ops
  reference,  ///< weight by weight, from the logarithms of the features
};

/// How performer_attention weighs.
struct PerformerAttentionOptions {
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// Bool [B, M]: false where a key is padding. Undefined: none is. PyTorch's key_padding_mask means the opposite.
  Tensor padding_mask = {};
  PerformerForm form = PerformerForm::automatic;  ///< how it is computed
  /// The rate, in [0, 1), at which whole queries and keys are dropped: the weight of a pair is multiplied by a factor
  /// of its query and one of its key, 0 or the inverse of the keep rate. The denominator uses all of them. A query
  /// that is dropped gives 0.
  double dropout = 0;
  /// Draws the factors, of keys and then of queries: two draws when there is dropout, none otherwise.
  Generator* generator = nullptr;
};

/// The random matrix Ω. Rows of a block of `width` rows are orthogonal to each other, and each row has the direction
/// and, independently of it, the length of a vector of normal numbers. The last block is cut where `width` does not
/// divide `features`.
///
/// The directions of a block are Haar distributed, which Gram–Schmidt gives. The columns of a Householder QR would
/// need their signs corrected: without that, the estimate of the weights is biased.
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

/// log(√m φ_r(x)) = ω_r·x' − ‖x'‖²/2, the logarithms of the features but for a constant.
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
/// Exponents of keys are taken relative to the largest of each feature, over the keys that are seen, and those of
/// queries relative to the largest of each query. Numbers of any size then stay finite, and every denominator is at
/// least about 1. Masks act as in softmax_attention: a query that sees no key gives 0 and has no gradient.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D], `omega` [m, D] → [B, H, N, D].
/// Dtypes: one floating dtype; `omega` is float32 for bfloat16, and weights and sums are too.
/// Gradient: of q, k and v: any number of times, but once (fused) in the form of a CPU. `omega` is a constant.
/// Cost: time O((N + M)·m·D). Memory beside the result is linear in the tokens: of the fused form (N + M)·D, of the
/// composed one (N + M)·m, times log N when causal.
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
