#include <linnet/ops/array/math.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {

Tensor exp(const Tensor& x, Where where) {
  Op op("exp", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::exp, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{mul(g, y())}; });
}

Tensor log(const Tensor& x, Where where) {
  Op op("log", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::log, x), [x = op.save(x)](const Tensor& g) { return Grads{div(g, x())}; });
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

Tensor sign(const Tensor& x, Where where) {
  Op op("sign", where, {x});
  return op.record(detail::unary(Unary::sign, x), [](const Tensor& g) { return Grads{zeros_like(g)}; });
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

}  // namespace linnet
