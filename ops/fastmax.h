#pragma once

#include <array>
#include <optional>
#include <variant>

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

enum class FastmaxNormalisation {
  standard,  ///< each query and key to mean 0 and (population) variance 1 over its D entries, eqs. 5–6
  none,
};

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
  Tensor keep = {};
};

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), s_ij = scale · q̂_i·k̂_j (eqs. 5–12). Shapes, masks and memory as
/// for softmax_attention. The attention is fused: differentiable once. Throws ShapeError, DTypeError,
/// DeviceError, and ValueError when f can be 0 or less over the scores that the normalisation allows, naming
/// the smallest value.
Tensor fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const FastmaxOptions& options = {},
               Where where = {});

}  // namespace linnet
