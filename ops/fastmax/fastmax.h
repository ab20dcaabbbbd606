#pragma once

#include <array>
#include <optional>
#include <variant>

#include <linnet/core/device/backend.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Fastmax attention.
///
/// Two errata of the paper. Its eq. 15 claims 0 ≤ s ≤ 1, but eqs. 5–6 give s in [−D, D], where f of order 1 can be
/// negative and the denominator can vanish. So scores have a scale here, and weights that could be negative are
/// refused. The ½ of eq. 8 is missing from eqs. 20–27 and 30–33, where it belongs too.
///
/// Source: Gerami et al. 2024, "FAST: Factorizable Attention for Speeding up Transformers".

namespace linnet {

/// The factor of q̂·k̂. `automatic` is `paper` where the weights have a quadratic term, and `unit` otherwise.
enum class FastmaxScale {
  automatic,
  paper,  ///< 1
  sqrt,   ///< 1/√D, the temperature of softmax
  unit,   ///< 0.999/D: |s| < 1 for standardised q and k
};

/// How queries and keys are normalised before their product.
enum class FastmaxNormalisation {
  standard,  ///< each to mean 0 and (population) variance 1 over its D entries, eqs. 5–6
  none,
};

/// How Fastmax is computed. All forms agree to rounding.
enum class FastmaxForm {
  automatic,   ///< the faster of the next two, by shape, dtype and device alone: fastmax_form
  quadratic,   ///< weight by weight, like softmax attention: time grows with N²
  factorised,  ///< through the features of queries and keys (section 2.4): time grows with N
  reference,   ///< as eqs. 5–12 are written, with whole N×N matrices, to read and to compare with. Differentiable any
               ///< number of times. No dropout
};

/// Which features the denominator (normaliser) of fastmax uses under dropout.
enum class FastmaxNormaliser {
  clean,   ///< all features: the denominator cannot vanish, and the expected output is that without dropout
  shared,  ///< the kept ones, as in the numerator. Unstable: with the paper's scale, weights and denominators can
           ///< turn negative
};

/// Options of fastmax.
struct FastmaxOptions {
  /// The order of the Taylor polynomial f(s) = sum_{l ≤ order} s^l / l! (eq. 8): 1 or 2.
  int order = 2;
  /// a0, a1, a2 of f(s) = a0 + a1 s + a2 s², instead of the Taylor polynomial's.
  std::optional<std::array<double, 3>> coefficients = {};
  FastmaxNormalisation normalisation = FastmaxNormalisation::standard;  ///< of queries and keys
  std::variant<FastmaxScale, double> scale = FastmaxScale::automatic;   ///< the factor of q̂·k̂
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// Bool [B, M]: false where a key is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// `quadratic` refuses dropout of features. For tensors without elements all forms are the same.
  FastmaxForm form = FastmaxForm::automatic;
  /// The rate, in [0, 1). Queries' and keys' features are dropped independently, each with this probability rounded
  /// to a multiple of 1/256 and at most 255/256. Kept features are scaled by the inverse of the realised keep rate.
  /// No mask is stored: backward draws it again.
  double dropout = 0;
  /// By default quadratic, or standard for weights without a quadratic term, such as order 1. Such weights refuse
  /// quadratic dropout, which would do nothing to them. Quadratic and standard dropout exist only in the factorised
  /// form, and for sequences below its crossover (fastmax_form) they cost far more than attention without dropout.
  /// Token dropout costs nothing.
  std::optional<FastmaxDropout> dropout_kind = {};
  FastmaxNormaliser dropout_normaliser = FastmaxNormaliser::clean;  ///< which denominator dropout uses
  /// Draws the dropout masks: takes two streams if there is dropout, none otherwise.
  Generator* generator = nullptr;
};

/// The number that `scale` stands for. It depends on the width D, and on whether the weights have a quadratic term.
double fastmax_scale(const std::variant<FastmaxScale, double>& scale, bool quadratic_term, int64_t width);

/// The form that `automatic` chooses: on the CPU from a table of measured crossovers, on a GPU from counts of
/// operations.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D].
/// Throws: ShapeError for tensors of another rank.
FastmaxForm fastmax_form(const Tensor& q, const Tensor& k, bool quadratic_term, bool causal, Where where = {});

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), with s_ij = scale · q̂_i·k̂_j.
///
/// Masks act as in softmax_attention: a query that sees no key gives 0 and has no gradient.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D] → [B, H, N, D], in memory [B, N, H, D].
/// Dtypes: one floating dtype. For bfloat16, weights and sums are float32.
/// Gradient: once (fused); any number of times with FastmaxForm::reference.
/// Cost: quadratic form, time O(N·M·D); factorised form, O((N + M)·D³) for order 2 and O((N + M)·D²) for order 1.
/// Memory apart from the result is linear in the tokens.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for options out of range, and when f can be 0 or less for
/// scores that the normalisation allows; the message has the smallest value.
/// Source: Gerami et al. 2024, eqs. 5–12.
Tensor fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const FastmaxOptions& options = {},
               Where where = {});

/// The matrix of the weights f(s_ij) / sum_j f(s_ij) with which fastmax sums the values. Rows sum to 1, or to 0 where
/// a query sees no key. For inspection: `dropout` and `form` are ignored.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D] → [B, H, N, M].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(N·M·D), memory O(N·M).
/// Throws: as fastmax.
/// Source: Gerami et al. 2024, eq. 7.
Tensor fastmax_weights(const Tensor& q, const Tensor& k, const FastmaxOptions& options = {}, Where where = {});

}  // namespace linnet
