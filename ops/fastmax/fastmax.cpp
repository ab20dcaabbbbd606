#include <linnet/ops/fastmax/fastmax.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fastmax_forms.h>
#include <linnet/ops/detail/fastmax_reference.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {
namespace {

/// f(s) = a0 + a1 s + a2 s²
struct Polynomial {
  double a0, a1, a2;

  double operator()(double s) const { return a0 + a1 * s + a2 * s * s; }

  /// The s in [−bound, bound] at which f is smallest. The bound may be infinite.
  double minimiser(double bound) const {
    const double vertex = -a1 / (2 * a2);
    if (a2 > 0 && std::abs(vertex) <= bound) return vertex;
    return a1 < 0 ? bound : -bound;  // f(bound) − f(−bound) = 2 a1 bound
  }

  double minimum(double bound) const {
    if (std::isfinite(bound) || a2 > 0) return (*this)(minimiser(bound));
    return a1 == 0 && a2 == 0 ? a0 : -INFINITY;
  }
};

/// The Taylor polynomial of the exponential, or the caller's.
Polynomial polynomial_of(const FastmaxOptions& options) {
  if (options.coefficients) {
    const auto& [a0, a1, a2] = *options.coefficients;
    if (!std::isfinite(a0) || !std::isfinite(a1) || !std::isfinite(a2)) {
      throw ValueError(fmt::format("coefficients are {}, {}, {}; they must be finite", a0, a1, a2));
    }
    return {a0, a1, a2};
  }
  if (options.order == 1) return {1, 1, 0};    // [FAST eq.8]
  if (options.order == 2) return {1, 1, 0.5};  // [FAST eq.8]
  throw ValueError(fmt::format("order is {}; it must be 1 or 2", options.order));
}

/// Checks that f is positive over the range of the scores, so that eq. 10 holds: the weights are positive.
void check_positive(const Polynomial& f, double bound) {
  const double minimum = f.minimum(bound);
  if (minimum > 0) return;
  throw ValueError(
      fmt::format("f(s) = {} + {}·s + {}·s² can be as small as {} for scores |s| ≤ {}, but weights must be "
                  "positive; use order 2, "
                  "standard normalisation with FastmaxScale::unit, or other coefficients",
                  f.a0, f.a1, f.a2, minimum, bound));
}

FastmaxDropout dropout_kind(const Polynomial& f, const FastmaxOptions& options) {
  return options.dropout_kind.value_or(f.a2 == 0 ? FastmaxDropout::standard : FastmaxDropout::quadratic);
}

void check_dropout(const Polynomial& f, const FastmaxOptions& options) {
  detail::check_dropout(options.dropout, options.generator);
  if (options.dropout == 0) return;
  if (options.dropout == 1) throw ValueError("dropout is 1; it must be below 1");
  if (options.form == FastmaxForm::reference) {
    throw ValueError(
        fmt::format("dropout is {}, but the reference form has none; choose another form", options.dropout));
  }
  const FastmaxDropout kind = dropout_kind(f, options);
  if (kind == FastmaxDropout::quadratic && f.a2 == 0) {
    throw ValueError(fmt::format(
        "dropout {} of quadratic features does nothing to weights that have none, as those of order 1; use "
        "FastmaxDropout::standard or token",
        options.dropout));
  }
  if (options.form == FastmaxForm::quadratic && kind != FastmaxDropout::token) {
    throw ValueError(
        fmt::format("{} dropout needs the features of the factorised form, but the quadratic one is "
                    "forced; use FastmaxDropout::token or another form",
                    kind == FastmaxDropout::quadratic ? "quadratic" : "standard"));
  }
}

/// The weights as a polynomial of t = q̂·k̂ = s / scale. Throws ValueError unless all possible weights are positive.
FastmaxParams params_of(const Polynomial& f, const FastmaxOptions& options, int64_t width) {
  const bool standard = options.normalisation == FastmaxNormalisation::standard;
  const double scale = fastmax_scale(options.scale, f.a2 != 0, width);
  if (!std::isfinite(scale)) throw ValueError(fmt::format("scale is {}; it must be finite", scale));
  // A standardised vector has length √D at most, so that |q̂·k̂| ≤ D.
  check_positive(f, scale == 0 ? 0 : standard ? std::abs(scale) * static_cast<double>(width) : INFINITY);
  return {.a0 = f.a0,
          .a1 = f.a1 * scale,
          .a2 = f.a2 * scale * scale,
          .map = standard ? RowMap::standardise : RowMap::none,
          .causal = options.causal,
          .keep_of_256 = detail::bytes_kept(options.dropout),
          .dropout = dropout_kind(f, options),
          .shared_denominator = options.dropout_normaliser == FastmaxNormaliser::shared,
          .q_rng = {},
          .k_rng = {}};
}

/// The quadratic form (eqs. 5–12), weight by weight.
Tensor quadratic_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                         const FastmaxParams& params) {
  const bool empty = q.numel() == 0 || k.numel() == 0;  // without elements there is no mean
  const AttentionParams options{
      .kind = {.softmax = false, .a0 = params.a0, .a1 = params.a1, .a2 = params.a2},
      .map = empty ? RowMap::none : params.map,
      .scale = 1,
      .causal = params.causal,
      .accumulate = false,
      .accumulate_keys = false,
      .has_self_score = false,
      .self_score = 0,
      .dropout = 0,
      .dropout_rng = {},
      .tokens = {params.keep_of_256, params.shared_denominator, params.q_rng, params.k_rng}};
  detail::check_qkv(q, k, v, padding_mask);
  return detail::quadratic_attention({detail::QueryRows::all(q, {{.k = k, .v = v, .padding_mask = padding_mask}})},
                                     options);
}

}  // namespace

FastmaxForm detail::fastmax_form_for(FastmaxForm asked, const Tensor& q, const Tensor& k,
                                     const FastmaxParams& params) {
  if (asked == FastmaxForm::reference) return asked;
  if (q.numel() == 0 || k.numel() == 0) return FastmaxForm::quadratic;
  if (asked != FastmaxForm::automatic) return asked;
  if (params.keep_of_256 < 256 && params.dropout != FastmaxDropout::token) return FastmaxForm::factorised;
  return fastmax_form(q, k, params.a2 != 0, params.causal);
}

Tensor detail::fastmax_in(FastmaxForm form, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& padding_mask, const FastmaxParams& params) {
  if (form == FastmaxForm::reference) return fastmax_reference(q, k, v, padding_mask, params);
  if (form == FastmaxForm::quadratic) return quadratic_fastmax(q, k, v, padding_mask, params);
  return fused_fastmax(q, k, v, padding_mask, params);
}

int detail::bytes_kept(double dropout) { return std::max(1, static_cast<int>(std::lround(256 * (1 - dropout)))); }

double fastmax_scale(const std::variant<FastmaxScale, double>& scale, bool quadratic_term, int64_t width) {
  if (const double* number = std::get_if<double>(&scale)) return *number;
  if (width == 0) return 1;
  FastmaxScale name = std::get<FastmaxScale>(scale);
  if (name == FastmaxScale::automatic) name = quadratic_term ? FastmaxScale::paper : FastmaxScale::unit;
  if (name == FastmaxScale::sqrt) return 1 / std::sqrt(static_cast<double>(width));
  return name == FastmaxScale::unit ? 0.999 / static_cast<double>(width) : 1;
}

Tensor fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const FastmaxOptions& options, Where where) {
  Call call("fastmax", where);
  detail::check_heads(q, "q");
  detail::check_heads(k, "k");
  detail::check_padding_mask(options.padding_mask, k, "k");
  if (options.form == FastmaxForm::reference && detail::are_bfloat16({q, k, v})) {
    detail::check_heads(v, "v");
    return detail::attend_in_float32({q, k, v}, [&](const auto& x) { return fastmax(x[0], x[1], x[2], options); });
  }
  const Polynomial f = polynomial_of(options);
  check_dropout(f, options);
  FastmaxParams params = params_of(f, options, q.shape()[3]);
  if (options.dropout > 0) {
    params.q_rng = options.generator->next();
    params.k_rng = options.generator->next();
  }
  const FastmaxForm form = detail::fastmax_form_for(options.form, q, k, params);
  return detail::fastmax_in(form, q, k, v, options.padding_mask, params);
}

Tensor fastmax_weights(const Tensor& q, const Tensor& k, const FastmaxOptions& options, Where where) {
  Call call("fastmax_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  return detail::fastmax_reference_weights(detail::in_computed(q), detail::in_computed(k), options.padding_mask,
                                           params_of(polynomial_of(options), options, q.shape()[3]));
}

}  // namespace linnet
