#include <linnet/ops/array/math.h>

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {
namespace {

/// A function whose derivative is 0 wherever it exists.
Tensor step_function(const char* name, Unary kind, const Tensor& x, Where where) {
  Op op(name, where, {x});
  return op.record(detail::unary(kind, x), [](const Tensor& g) { return Grads{zeros_like(g)}; });
}

/// `backward` computes the gradient from the cotangent and x.
Tensor smooth_function(const char* name, Unary kind, const Tensor& x, Where where,
                       Tensor (*backward)(const Tensor& g, const Tensor& x)) {
  Op op(name, where, {x});
  op.floating_dtype();
  return op.record(detail::unary(kind, x),
                   [x = op.save(x), backward](const Tensor& g) { return Grads{backward(g, x())}; });
}

}  // namespace

Tensor floor(const Tensor& x, Where where) { return step_function("floor", Unary::floor, x, where); }
Tensor ceil(const Tensor& x, Where where) { return step_function("ceil", Unary::ceil, x, where); }
Tensor round(const Tensor& x, Where where) { return step_function("round", Unary::round, x, where); }
Tensor trunc(const Tensor& x, Where where) { return step_function("trunc", Unary::trunc, x, where); }
Tensor sign(const Tensor& x, Where where) { return step_function("sign", Unary::sign, x, where); }

Tensor exp(const Tensor& x, Where where) {
  Op op("exp", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::exp, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{mul(g, y())}; });
}

Tensor expm1(const Tensor& x, Where where) {
  return smooth_function("expm1", Unary::expm1, x, where,
                         [](const Tensor& g, const Tensor& v) { return g * exp(v); });
}

Tensor log(const Tensor& x, Where where) {
  Op op("log", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::log, x), [x = op.save(x)](const Tensor& g) { return Grads{div(g, x())}; });
}

Tensor log1p(const Tensor& x, Where where) {
  return smooth_function("log1p", Unary::log1p, x, where,
                         [](const Tensor& g, const Tensor& v) { return g / (v + 1); });
}

Tensor log2(const Tensor& x, Where where) {
  return smooth_function("log2", Unary::log2, x, where,
                         [](const Tensor& g, const Tensor& v) { return g / (v * std::numbers::ln2); });
}

Tensor log10(const Tensor& x, Where where) {
  return smooth_function("log10", Unary::log10, x, where,
                         [](const Tensor& g, const Tensor& v) { return g / (v * std::numbers::ln10); });
}

Tensor sqrt(const Tensor& x, Where where) {
  Op op("sqrt", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::sqrt, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{div(g, mul(y(), 2))}; });
}

Tensor rsqrt(const Tensor& x, Where where) {
  Op op("rsqrt", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::rsqrt, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) {
    return Grads{mul(g, mul(mul(y(), square(y())), -0.5))};  // −½·x^(−3/2)
  });
}

Tensor abs(const Tensor& x, Where where) {
  Op op("abs", where, {x});
  return op.record(detail::unary(Unary::abs, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{mul(g, sign(x()))}; });
}

Tensor sin(const Tensor& x, Where where) {
  Op op("sin", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::sin, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{mul(g, cos(x()))}; });
}

Tensor cos(const Tensor& x, Where where) {
  Op op("cos", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::cos, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{neg(mul(g, sin(x())))}; });
}

Tensor tan(const Tensor& x, Where where) {
  return smooth_function("tan", Unary::tan, x, where,
                         [](const Tensor& g, const Tensor& v) { return g / square(cos(v)); });
}

Tensor asin(const Tensor& x, Where where) {
  return smooth_function("asin", Unary::asin, x, where,
                         [](const Tensor& g, const Tensor& v) { return g * rsqrt(1 - square(v)); });
}

Tensor acos(const Tensor& x, Where where) {
  return smooth_function("acos", Unary::acos, x, where,
                         [](const Tensor& g, const Tensor& v) { return -(g * rsqrt(1 - square(v))); });
}

Tensor atan(const Tensor& x, Where where) {
  return smooth_function("atan", Unary::atan, x, where,
                         [](const Tensor& g, const Tensor& v) { return g / (square(v) + 1); });
}

Tensor sinh(const Tensor& x, Where where) {
  return smooth_function("sinh", Unary::sinh, x, where, [](const Tensor& g, const Tensor& v) { return g * cosh(v); });
}

Tensor cosh(const Tensor& x, Where where) {
  return smooth_function("cosh", Unary::cosh, x, where, [](const Tensor& g, const Tensor& v) { return g * sinh(v); });
}

Tensor square(const Tensor& x, Where where) {
  Op op("square", where, {x});
  return op.record(detail::unary(Unary::square, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{mul(mul(g, 2), x())}; });
}

Tensor reciprocal(const Tensor& x, Where where) {
  Op op("reciprocal", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::reciprocal, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{neg(mul(g, square(y())))}; });
}

Tensor erf(const Tensor& x, Where where) {
  Op op("erf", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::erf, x), [x = op.save(x)](const Tensor& g) {
    return Grads{mul(g, mul(exp(neg(square(x()))), 1.1283791670955126))};  // 2/√π · exp(−x²)
  });
}

Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max, Where where) {
  Op op("clamp", where, {x});
  if (!min && !max) throw ValueError("neither min nor max is given; give one of them");
  if (min && max && min->real > max->real) {
    throw ValueError(fmt::format("min {} is above max {}", min->real, max->real));
  }
  Tensor out = x.detach();
  if (min) out = maximum(out, *min);
  if (max) out = minimum(out, *max);
  return op.record(out, [x = op.save(x), min, max](const Tensor& g) {
    const Tensor input = x().detach();
    Tensor grad = g;
    if (min) grad = linnet::where(ge(input, *min), grad, 0);
    if (max) grad = linnet::where(le(input, *max), grad, 0);
    return Grads{grad};
  });
}

Tensor nan_to_num(const Tensor& x, Scalar nan, std::optional<Scalar> posinf, std::optional<Scalar> neginf,
                  Where where) {
  const Call call("nan_to_num", where);
  if (!is_floating(x.dtype())) return x.clone();
  const double largest = detail::largest_finite(x.dtype());
  const Tensor without_nan = masked_fill(x, isnan(x), nan);
  const Tensor up_to_largest = masked_fill(without_nan, eq(x, INFINITY), posinf.value_or(largest));
  return masked_fill(up_to_largest, eq(x, -INFINITY), neginf.value_or(-largest));
}

}  // namespace linnet
