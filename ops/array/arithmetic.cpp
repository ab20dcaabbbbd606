#include <linnet/ops/array/arithmetic.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {
namespace {

using detail::number_beside;

/// Saves `tensor` if input `i`, whose gradient needs it, requires one.
Saved save_for(const Op& op, size_t i, const Tensor& tensor) { return op.needs_grad(i) ? op.save(tensor) : Saved{}; }

/// The share of the gradient that goes to a: 0 where a < b, ½ where they are equal, 1 elsewhere. Where one is NaN the
/// result is NaN, and the whole gradient goes to both.
Tensor share_of_larger(const Tensor& a, const Tensor& b) {
  return linnet::where(eq(a.detach(), b.detach()), 0.5, logical_not(lt(a.detach(), b.detach())).to(a.dtype()));
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
    // (a/b)' = (a' − (a/b)·b')/b
    const Tensor da = div(g, b());
    return Grads{needs_a ? da : Tensor{}, y.defined() ? neg(mul(da, y())) : Tensor{}};
  });
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
      // b·a^(b − 1), and 0 rather than 0·∞ where b is 0.
      const Tensor below = sub(b(), ne(b().detach(), 0).to(g.dtype()));
      grads[0] = mul(g, mul(b(), pow(a(), below)));
    }
    if (y.defined()) {
      // a^b·log(a), and 0 rather than 0·∞ where a is 0 and its power is finite.
      const Tensor is_finite = logical_and(eq(a(), 0), ge(b(), 0));
      grads[1] = mul(g, mul(y(), log(linnet::where(is_finite, 1, a()))));
    }
    return grads;
  });
}

Tensor maximum(const Tensor& a, const Tensor& b, Where where) {
  Op op("maximum", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::maximum, a, b), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    return Grads{mul(g, share_of_larger(a(), b())), mul(g, share_of_larger(b(), a()))};
  });
}

Tensor minimum(const Tensor& a, const Tensor& b, Where where) {
  Op op("minimum", where, {a, b});
  op.common_dtype();
  return op.record(detail::binary(Binary::minimum, a, b), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    return Grads{mul(g, share_of_larger(b(), a())), mul(g, share_of_larger(a(), b()))};
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
