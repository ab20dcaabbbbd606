#pragma once

#include <array>
#include <optional>
#include <variant>

#include <linnet/core/device/backend.h>
#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Fastmax attention (Gerami et al. 2024, "FAST: Factorizable Attention for Speeding up Transformers").
///
/// Where the paper leaves a gap: its eq. 15 claims 0 ≤ s ≤ 1, but eqs. 5–6 give s in [−D, D], where f of
/// order 1 takes negative values and the sum that divides may vanish. So scores have a scale, and weights
/// that could be negative are refused. The ½ of eq. 8, missing from eqs. 20–35, belongs there too.

namespace linnet {

/// What q·k is multiplied with. `automatic` is `paper` where the weights have a quadratic term, `unit`
/// otherwise.
enum class FastmaxScale {
  automatic,
  paper,  ///< 1
  sqrt,   ///< 1/√D, the temperature of softmax
  unit,   ///< 0.999/D: |s| < 1 for standardised q and k
};

/// What becomes of queries and keys before they meet.
enum class FastmaxNormalisation {
  standard,  ///< each query and key to mean 0 and (population) variance 1 over its D entries, eqs. 5–6
  none,
};

/// How it is computed; all agree to rounding.
enum class FastmaxForm {
  automatic,   ///< the faster one, by shape, dtype and device alone: fastmax_form
  quadratic,   ///< weight by weight, as softmax attention: time grows with N²
  factorised,  ///< through the features of queries and keys (section 2.4): time grows with N
  reference,   ///< as eqs. 5–12 are written, with whole N×N matrices: to read and to compare with. Differentiable any
               ///< number of times; no dropout
};

/// What the denominator is made of under dropout.
enum class FastmaxNormaliser {
  clean,   ///< undropped features: it cannot vanish, and the expected output is that without dropout
  shared,  ///< the dropped ones, as in the numerator. Unstable: with the paper's scale, weights and denominators can
           ///< turn negative
};

/// How fastmax weighs.
struct FastmaxOptions {
  /// Of the Taylor polynomial f(s) = sum_{l ≤ order} s^l / l! (eq. 8): 1 or 2.
  int order = 2;
  /// a0, a1, a2 of f(s) = a0 + a1 s + a2 s², in place of the Taylor polynomial's.
  std::optional<std::array<double, 3>> coefficients = {};
  FastmaxNormalisation normalisation = FastmaxNormalisation::standard;
  std::variant<FastmaxScale, double> scale = FastmaxScale::automatic;
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// Bool [B, M]: false where a key is padding. Undefined: none is.
  Tensor padding_mask = {};
  /// `quadratic` refuses dropout of features. Without queries, keys or width there is but one form.
  FastmaxForm form = FastmaxForm::automatic;
  /// The rate, in [0, 1): queries' and keys' features are dropped independently, each with this probability rounded
  /// to a multiple of 1/256, 255/256 at the most, and those that stay are scaled by the inverse of the realised keep
  /// rate. No mask is stored: backward draws it again.
  double dropout = 0;
  /// Quadratic and standard dropout exist in the factorised form alone, and under the length where that is the faster
  /// one they cost far more than attention without them; token dropout costs nothing. Unless given, it is quadratic,
  /// and standard for weights without a quadratic term, as those of order 1: these refuse quadratic dropout, which
  /// would do nothing.
  std::optional<FastmaxDropout> dropout_kind = {};
  FastmaxNormaliser dropout_normaliser = FastmaxNormaliser::clean;
  /// Takes two draws when there is dropout.
  Generator* generator = nullptr;
};

/// The number that `scale` stands for: for weights with a quadratic term or not, and vectors of this width.
double fastmax_scale(const std::variant<FastmaxScale, double>& scale, bool quadratic_term, int64_t width);

/// The form that `automatic` chooses for q [B, H, N, D] and k [B, H, M, D]: on the CPU from a table of measured
/// crossovers, on a GPU from counts of operations. Throws ShapeError for tensors of another rank.
FastmaxForm fastmax_form(const Tensor& q, const Tensor& k, bool quadratic_term, bool causal, Where where = {});

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), s_ij = scale · q̂_i·k̂_j (eqs. 5–12). Shapes, dtypes, masks and memory as
/// for softmax_attention. Time grows with N·M·D in the quadratic form, and in the factorised one with N·D³ for order
/// 2, N·D² for order 1: linear in the tokens, which is faster where they are many. The attention is fused:
/// differentiable once. A query that sees no key gives 0 and no gradient. Throws ShapeError, DTypeError, DeviceError,
/// and ValueError for options out of range, and when f can be 0 or less over the scores that the normalisation
/// allows, naming the smallest value.
Tensor fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const FastmaxOptions& options = {},
               Where where = {});

/// The weights f(s_ij) / sum_j f(s_ij) that fastmax gives the values, as a matrix (eq. 7): [B, H, N, M], whose rows
/// sum to 1, or to 0 where a query sees no key. To look at: memory grows with N·M. Neither dropout nor `form` matter.
/// Differentiable any number of times. Of bfloat16 they are float32. Throws as fastmax does.
Tensor fastmax_weights(const Tensor& q, const Tensor& k, const FastmaxOptions& options = {}, Where where = {});

}  // namespace linnet
