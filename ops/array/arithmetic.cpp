#include <linnet/ops/array/arithmetic.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {
namespace {

using detail::number_beside;

/// Saves `tensor` if input `i` requires a gradient, for which it is needed.
Saved save_for(const Op& op, size_t i, const Tensor& tensor) { return op.needs_grad(i) ? op.save(tensor) : Saved{}; }

/// The part of the gradient g of max(a, b) that a gets: 0 where a < b, half where they are equal, all elsewhere.
/// Where one is NaN the result is NaN, and both get all. Where a < b it is 0 even if g is infinite.
Tensor gradient_of_larger(const Tensor& g, const Tensor& a, const Tensor& b) {
  const Tensor shared = linnet::where(eq(a.detach(), b.detach()), mul(g, 0.5), g);
  return masked_fill(shared, lt(a.detach(), b.detach()), 0);
}

/// Kernels divide integers, and a division by 0 traps or gives any number.
void check_divisor(bool holds_zero) {
  if (!holds_zero) return;
  throw ValueError("b holds 0, and integers are not divided by 0; floating tensors are: to(DType::float32)");
}

void check_divisors(const Tensor& b) {
  if (!is_integer(b.dtype())) return;
  Recording::check_values(b, [](const Tensor& on_cpu) { check_divisor(any(eq(on_cpu, 0)).item<bool>()); });
}

Tensor checked_quotient(const Tensor& a, const Tensor& b, Where where);

/// The remainder, for a divisor that has been checked.
Tensor checked_remainder(const Tensor& a, const Tensor& b, Where where) {
  Op op("remainder", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::remainder, a, b),
                   [a = save_for(op, 1, a), b = save_for(op, 1, b)](const Tensor& g) {
                     return Grads{g, b.defined() ? neg(mul(g, checked_quotient(a(), b(), {}))) : Tensor{}};
                   });
}

/// ⌊a/b⌋ of int64, divided in float64. A second division adds what the 53 bits of the first one miss.
Tensor integer_quotient(const Tensor& a, const Tensor& b) {
  const Tensor divisor = b.to(DType::float64);
  const auto divided = [&](const Tensor& x) { return round(div(x.to(DType::float64), divisor)).to(DType::int64); };
  const Tensor multiple = sub(a, checked_remainder(a, b, {})), estimate = divided(multiple);
  return add(estimate, divided(sub(multiple, mul(estimate, b))));
}

/// ⌊a/b⌋ of floating tensors, by the remainder, because a/b may be rounded up to a whole number.
Tensor floating_quotient(const Tensor& a, const Tensor& b) {
  const Tensor rest = checked_remainder(a, b, {}), quotient = round(div(sub(a, rest), b)), ratio = div(a, b);
  // The remainder is infinite where b is infinite and its sign differs from a's. There is none for b = 0. A quotient
  // of 0 has the sign of a/b.
  const Tensor finite = linnet::where(eq(quotient, 0), mul(ratio, 0), masked_fill(quotient, isinf(rest), -1));
  return linnet::where(eq(b, 0), ratio, finite);
}

/// ⌊a/b⌋, for a divisor that has been checked.
Tensor checked_quotient(const Tensor& a, const Tensor& b, Where where) {
  Op op("floor_divide", where, {a, b});
  const DType dtype = op.common_dtype();
  if (dtype == DType::boolean) throw DTypeError("a and b are bool; convert them with to(DType::int64)");
  Tensor out;
  {
    const NoGrad no_grad;
    const bool is_real = is_floating(dtype);
    const DType wide = is_real ? computed_in(dtype) : DType::int64;
    out = (is_real ? floating_quotient : integer_quotient)(a.to(wide), b.to(wide)).to(dtype);
  }
  return op.record(out, [](const Tensor& g) { return Grads{zeros_like(g), zeros_like(g)}; });
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, Where where) {
  Op op("add", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::add, a, b), [](const Tensor& g) { return Grads{g, g}; });
}

Tensor sub(const Tensor& a, const Tensor& b, Where where) {
  Op op("sub", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::sub, a, b),
                   [needs_b = op.needs_grad(1)](const Tensor& g) { return Grads{g, needs_b ? neg(g) : Tensor{}}; });
}

Tensor mul(const Tensor& a, const Tensor& b, Where where) {
  Op op("mul", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::mul, a, b),
                   [a = save_for(op, 1, a), b = save_for(op, 0, b)](const Tensor& g) {
                     return Grads{b.defined() ? mul(g, b()) : Tensor{}, a.defined() ? mul(g, a()) : Tensor{}};
                   });
}

Tensor div(const Tensor& a, const Tensor& b, Where where) {
  Op op("div", where, {a, b});
  op.floating_dtype();
  Tensor out = detail::binary(Binary::div, a, b);
  const Saved y = op.needs_grad(1) ? op.save_output(out) : Saved{};
  return op.record(out, [needs_a = op.needs_grad(0), b = op.save(b), y](const Tensor& g) {
    // By b it is −(g·y)/b: (g/b)·y would be ∞·0 for a = 0 and a small b, and g·(y/b) would not be g/b for y = 1.
    return Grads{needs_a ? div(g, b()) : Tensor{}, y.defined() ? div(mul(g, y()), neg(b())) : Tensor{}};
  });
}

Tensor remainder(const Tensor& a, const Tensor& b, Where where) {
  const Call call("remainder", where);
  check_divisors(b);
  return checked_remainder(a, b, where);
}

Tensor floor_divide(const Tensor& a, const Tensor& b, Where where) {
  const Call call("floor_divide", where);
  check_divisors(b);
  return checked_quotient(a, b, where);
}

Tensor neg(const Tensor& x, Where where) {
  Op op("neg", where, {x});
  return op.record(detail::unary(Unary::neg, x), [](const Tensor& g) { return Grads{neg(g)}; });
}

Tensor pow(const Tensor& a, const Tensor& b, Where where) {
  Op op("pow", where, {a, b});
  op.floating_dtype();
  Tensor out = detail::binary(Binary::pow, a, b);
  const Saved y = op.needs_grad(1) ? op.save_output(out) : Saved{};
  return op.record(out, [needs_a = op.needs_grad(0), a = op.save(a), b = op.save(b), y](const Tensor& g) {
    Grads grads(2);
    if (needs_a) {
      // b·a^(b − 1), and 0 rather than 0·∞ where b is 0. If it is differentiated by b, which gives g/a there, it is
      // not cut off where these factors are finite.
      Tensor is_zero = eq(b().detach(), 0);
      if (grad_enabled() && y.defined()) {
        const Tensor are_finite = logical_and(isfinite(g.detach()), isfinite(div(1, a().detach())));
        is_zero = logical_and(is_zero, logical_not(are_finite));
      }
      const Tensor below = sub(b(), logical_not(is_zero).to(g.dtype()));
      grads[0] = masked_fill(mul(g, mul(b(), pow(a(), below))), is_zero, 0);
    }
    if (y.defined()) {
      // a^b·log(a), and 0 rather than 0·∞ where a is 0 and its power is finite.
      const Tensor is_finite = logical_and(eq(a(), 0), ge(b(), 0));
      grads[1] = mul(g, mul(y(), log(linnet::where(is_finite, 1, a()))));
    }
    return grads;
  });
}

Tensor atan2(const Tensor& a, const Tensor& b, Where where) {
  Op op("atan2", where, {a, b});
  op.floating_dtype();
  return op.record(detail::binary(Binary::atan2, a, b), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    // With a and b divided by the larger of them, whose squares then neither overflow nor vanish. It has no gradient,
    // as it changes nothing. 0 at the origin.
    const Tensor larger = maximum(abs(a().detach()), abs(b().detach()));
    const Tensor size = masked_fill(larger, logical_or(eq(larger, 0), isinf(larger)), 1);
    const Tensor p = div(a(), size), q = div(b(), size), squares = add(square(p), square(q));
    const Tensor scaled = div(g, masked_fill(squares, eq(squares, 0), INFINITY));
    return Grads{div(mul(scaled, q), size), neg(div(mul(scaled, p), size))};
  });
}

Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight, Where where) {
  Op op("lerp", where, {start, end, weight});
  op.floating_dtype();
  Tensor out;
  {
    const NoGrad no_grad;
    const Tensor step = sub(end, start);
    out = linnet::where(lt(abs(weight), 0.5), add(start, mul(step, weight)), sub(end, mul(step, sub(1, weight))));
  }
  return op.record(out, [start = op.save(start), end = op.save(end), weight = op.save(weight)](const Tensor& g) {
    const Tensor to_end = mul(g, weight());
    return Grads{sub(g, to_end), to_end, mul(g, sub(end(), start()))};
  });
}

Tensor maximum(const Tensor& a, const Tensor& b, Where where) {
  Op op("maximum", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::maximum, a, b), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    return Grads{gradient_of_larger(g, a(), b()), gradient_of_larger(g, b(), a())};
  });
}

Tensor minimum(const Tensor& a, const Tensor& b, Where where) {
  Op op("minimum", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::minimum, a, b), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    return Grads{gradient_of_larger(g, b(), a()), gradient_of_larger(g, a(), b())};
  });
}

// ---- With numbers ----

Tensor add(const Tensor& a, Scalar b, Where where) {
  const Call call("add", where);
  return add(a, number_beside(a, b));
}

Tensor sub(const Tensor& a, Scalar b, Where where) {
  const Call call("sub", where);
  return sub(a, number_beside(a, b));
}

Tensor sub(Scalar a, const Tensor& b, Where where) {
  const Call call("sub", where);
  return sub(number_beside(b, a), b);
}

Tensor mul(const Tensor& a, Scalar b, Where where) {
  const Call call("mul", where);
  return mul(a, number_beside(a, b));
}

Tensor div(const Tensor& a, Scalar b, Where where) {
  const Call call("div", where);
  return div(a, number_beside(a, b));
}

Tensor div(Scalar a, const Tensor& b, Where where) {
  const Call call("div", where);
  return div(number_beside(b, a), b);
}

Tensor remainder(const Tensor& a, Scalar b, Where where) {
  const Call call("remainder", where);
  check_divisor(is_integer(a.dtype()) && b.real == 0);
  return checked_remainder(a, number_beside(a, b), where);
}

Tensor remainder(Scalar a, const Tensor& b, Where where) {
  const Call call("remainder", where);
  return remainder(number_beside(b, a), b);
}

Tensor floor_divide(const Tensor& a, Scalar b, Where where) {
  const Call call("floor_divide", where);
  check_divisor(is_integer(a.dtype()) && b.real == 0);
  return checked_quotient(a, number_beside(a, b), where);
}

Tensor floor_divide(Scalar a, const Tensor& b, Where where) {
  const Call call("floor_divide", where);
  return floor_divide(number_beside(b, a), b);
}

Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight, Where where) {
  const Call call("lerp", where);
  detail::check_floating(start.dtype());
  const Tensor step = sub(end, start);
  if (std::abs(weight.real) < 0.5) return add(start, mul(step, weight));
  return sub(end, mul(step, 1 - weight.real));
}

Tensor pow(const Tensor& a, Scalar b, Where where) {
  const Call call("pow", where);
  return pow(a, number_beside(a, b));
}

Tensor pow(Scalar a, const Tensor& b, Where where) {
  const Call call("pow", where);
  return pow(number_beside(b, a), b);
}

Tensor maximum(const Tensor& a, Scalar b, Where where) {
  const Call call("maximum", where);
  return maximum(a, number_beside(a, b));
}

Tensor minimum(const Tensor& a, Scalar b, Where where) {
  const Call call("minimum", where);
  return minimum(a, number_beside(a, b));
}

// ---- Operators ----

Tensor operator+(Operand a, const Tensor& b) { return add(a.tensor, b, a.where); }
Tensor operator+(Operand a, Scalar b) { return add(a.tensor, b, a.where); }
Tensor operator+(Scalar a, Operand b) { return add(b.tensor, a, b.where); }
Tensor operator-(Operand a, const Tensor& b) { return sub(a.tensor, b, a.where); }
Tensor operator-(Operand a, Scalar b) { return sub(a.tensor, b, a.where); }
Tensor operator-(Scalar a, Operand b) { return sub(a, b.tensor, b.where); }
Tensor operator*(Operand a, const Tensor& b) { return mul(a.tensor, b, a.where); }
Tensor operator*(Operand a, Scalar b) { return mul(a.tensor, b, a.where); }
Tensor operator*(Scalar a, Operand b) { return mul(b.tensor, a, b.where); }
Tensor operator/(Operand a, const Tensor& b) { return div(a.tensor, b, a.where); }
Tensor operator/(Operand a, Scalar b) { return div(a.tensor, b, a.where); }
Tensor operator/(Scalar a, Operand b) { return div(a, b.tensor, b.where); }
Tensor operator%(Operand a, const Tensor& b) { return remainder(a.tensor, b, a.where); }
Tensor operator%(Operand a, Scalar b) { return remainder(a.tensor, b, a.where); }
Tensor operator%(Scalar a, Operand b) { return remainder(a, b.tensor, b.where); }
Tensor operator-(Operand x) { return neg(x.tensor, x.where); }

namespace {

bool wants_grad(const Tensor& y) { return y.requires_grad(); }
bool wants_grad(Scalar) { return false; }

/// Writes f(x, y) into x. Errors name the operator that the user wrote.
template <class Y, class F>
Tensor& edit(Edited x, const Y& y, char sign, F&& f) {
  const Call call(sign == '+' ? "+=" : sign == '-' ? "-=" : sign == '*' ? "*=" : "/=", x.where);
  if (grad_enabled() && (x.tensor.requires_grad() || wants_grad(y))) {
    throw AutogradError(
        fmt::format("x or y requires grad, and backward would not see this edit in place; write "
                    "x = x {} y, or edit under NoGrad",
                    sign));
  }
  const NoGrad no_grad;
  const Tensor result = f(x.tensor, y);
  if (x.is_temporary && detail::owns_elements_alone(x.tensor)) {
    throw ValueError(
        fmt::format("the left side is a copy, so the edit would be lost; to edit x where a mask is true, write "
                    "x.copy_(where(mask, x {} y, x))",
                    sign));
  }
  if (!(result.shape() == x.tensor.shape())) {
    throw ShapeError(fmt::format("the result has shape {}, which does not fit into x{}; write x = x {} y",
                                 to_string(result.shape()), to_string(x.tensor.shape()), sign));
  }
  return x.tensor.copy_(result);
}

constexpr auto kAdd = [](const Tensor& x, const auto& y) { return add(x, y); };
constexpr auto kSub = [](const Tensor& x, const auto& y) { return sub(x, y); };
constexpr auto kMul = [](const Tensor& x, const auto& y) { return mul(x, y); };
constexpr auto kDiv = [](const Tensor& x, const auto& y) { return div(x, y); };

}  // namespace

Tensor& operator+=(Edited x, const Tensor& y) { return edit(x, y, '+', kAdd); }
Tensor& operator+=(Edited x, Scalar y) { return edit(x, y, '+', kAdd); }
Tensor& operator-=(Edited x, const Tensor& y) { return edit(x, y, '-', kSub); }
Tensor& operator-=(Edited x, Scalar y) { return edit(x, y, '-', kSub); }
Tensor& operator*=(Edited x, const Tensor& y) { return edit(x, y, '*', kMul); }
Tensor& operator*=(Edited x, Scalar y) { return edit(x, y, '*', kMul); }
Tensor& operator/=(Edited x, const Tensor& y) { return edit(x, y, '/', kDiv); }
Tensor& operator/=(Edited x, Scalar y) { return edit(x, y, '/', kDiv); }

}  // namespace linnet
