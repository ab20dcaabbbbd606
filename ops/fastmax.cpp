#include <linnet/ops/fastmax.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/compare.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/quadratic_attention.h>
#include <linnet/ops/normalisation.h>

namespace linnet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// f(s) = a0 + a1 s + a2 s²
struct Polynomial {
  double a0, a1, a2;

  double operator()(double s) const { return a0 + a1 * s + a2 * s * s; }

  /// Where f is smallest over [−bound, bound]; the bound may be infinite.
  double minimiser(double bound) const {
    const double vertex = -a1 / (2 * a2);
    if (a2 > 0 && std::abs(vertex) <= bound) return vertex;
    return a1 < 0 ? bound : -bound;  // f(bound) − f(−bound) = 2 a1 bound
  }

  double minimum(double bound) const {
    if (std::isfinite(bound) || a2 > 0) return (*this)(minimiser(bound));
    return a1 == 0 && a2 == 0 ? a0 : -kInfinity;
  }
};

/// Taylor's of the exponential (eq. 8), or the caller's.
Polynomial polynomial_of(const FastmaxOptions& options) {
  if (options.coefficients) {
    const auto& [a0, a1, a2] = *options.coefficients;
    if (!std::isfinite(a0) || !std::isfinite(a1) || !std::isfinite(a2)) {
      throw ValueError(fmt::format("coefficients are {}, {}, {}; they must be finite", a0, a1, a2));
    }
    return {a0, a1, a2};
  }
  if (options.order == 1) return {1, 1, 0};
  if (options.order == 2) return {1, 1, 0.5};
  throw ValueError(fmt::format("order is {}; it must be 1 or 2", options.order));
}

double scale_of(const FastmaxOptions& options, const Polynomial& f, double width) {
  if (const double* number = std::get_if<double>(&options.scale)) {
    if (!std::isfinite(*number)) throw ValueError(fmt::format("scale is {}; it must be finite", *number));
    return *number;
  }
  if (width == 0) return 1;
  FastmaxScale scale = std::get<FastmaxScale>(options.scale);
  if (scale == FastmaxScale::automatic) scale = f.a2 != 0 ? FastmaxScale::paper : FastmaxScale::unit;
  if (scale == FastmaxScale::sqrt) return 1 / std::sqrt(width);
  return scale == FastmaxScale::unit ? 0.999 / width : 1;
}

/// Eq. 10, the weights being positive, as far as f and the range of the scores can assure it.
void check_positive(const Polynomial& f, double bound) {
  const double minimum = f.minimum(bound);
  if (minimum > 0) return;
  throw ValueError(
      fmt::format("f(s) = {} + {}·s + {}·s² can be as small as {} for scores |s| ≤ {}, but weights must be "
                  "positive; use order 2, "
                  "standard normalisation with FastmaxScale::unit, or other coefficients",
                  f.a0, f.a1, f.a2, minimum, bound));
}

/// Without what padded keys hold, which normalisation would otherwise bring into their gradients.
Tensor without_padding(const Tensor& k, const Tensor& keep) {
  return keep.defined() ? masked_fill(k, logical_not(keep).unsqueeze(1).unsqueeze(-1), 0) : k;
}

}  // namespace

Tensor fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const FastmaxOptions& options, Where where) {
  Call call("fastmax", where);
  detail::check_heads(q, "q");
  detail::check_heads(k, "k");
  detail::check_keep(options.keep, k, "k");
  const bool standard = options.normalisation == FastmaxNormalisation::standard;
  const auto width = static_cast<double>(q.shape()[3]);
  const Polynomial f = polynomial_of(options);
  const double scale = scale_of(options, f, width);
  // A standardised vector has length √D at most, so that |q̂·k̂| ≤ D.
  check_positive(f, scale == 0 ? 0 : standard ? std::abs(scale) * width : kInfinity);

  AttentionOptions kernel{};
  kernel.kind = {false, f.a0, f.a1, f.a2};
  kernel.scale = scale;
  kernel.causal = options.causal;
  if (!standard) return detail::quadratic_attention(q, k, v, options.keep, kernel);
  // Eqs. 5 and 6: x̂ = (x − mean(x)) / std(x)
  const Tensor q_hat = layer_norm(q, {}, {}, 1e-5);
  const Tensor k_hat = layer_norm(without_padding(k, options.keep), {}, {}, 1e-5);
  return detail::quadratic_attention(q_hat, k_hat, v, options.keep, kernel);
}

}  // namespace linnet
