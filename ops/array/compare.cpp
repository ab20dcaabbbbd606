#include <linnet/ops/array/compare.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {
namespace {

using detail::expanded;
using detail::number_beside;

Tensor compare(const char* name, Compare kind, const Tensor& a, const Tensor& b, Where where) {
  Op op(name, where, {a, b});
  op.common_dtype();
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, DType::boolean, a.device());
  backend(out).compare(kind, detail::view(out), detail::view(expanded(a, shape)), detail::view(expanded(b, shape)));
  return op.non_differentiable(out, "its result is true or false");
}

Tensor compare(const char* name, Compare kind, const Tensor& a, Scalar b, Where where) {
  const Call call(name, where);
  return compare(name, kind, a, number_beside(a, b), where);
}

void check_bool(const Tensor& x, const char* what) {
  if (x.dtype() == DType::boolean) return;
  throw DTypeError(fmt::format("{} is {}, not bool; ne(x, 0) is true where x is not 0", what, name_of(x.dtype())));
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b, Where where) { return compare("eq", Compare::eq, a, b, where); }
Tensor eq(const Tensor& a, Scalar b, Where where) { return compare("eq", Compare::eq, a, b, where); }
Tensor ne(const Tensor& a, const Tensor& b, Where where) { return compare("ne", Compare::ne, a, b, where); }
Tensor ne(const Tensor& a, Scalar b, Where where) { return compare("ne", Compare::ne, a, b, where); }
Tensor lt(const Tensor& a, const Tensor& b, Where where) { return compare("lt", Compare::lt, a, b, where); }
Tensor lt(const Tensor& a, Scalar b, Where where) { return compare("lt", Compare::lt, a, b, where); }
Tensor le(const Tensor& a, const Tensor& b, Where where) { return compare("le", Compare::le, a, b, where); }
Tensor le(const Tensor& a, Scalar b, Where where) { return compare("le", Compare::le, a, b, where); }
Tensor gt(const Tensor& a, const Tensor& b, Where where) { return compare("gt", Compare::gt, a, b, where); }
Tensor gt(const Tensor& a, Scalar b, Where where) { return compare("gt", Compare::gt, a, b, where); }
Tensor ge(const Tensor& a, const Tensor& b, Where where) { return compare("ge", Compare::ge, a, b, where); }
Tensor ge(const Tensor& a, Scalar b, Where where) { return compare("ge", Compare::ge, a, b, where); }

Tensor isnan(const Tensor& x, Where where) { return compare("isnan", Compare::ne, x, x, where); }

Tensor isinf(const Tensor& x, Where where) {
  const Call call("isinf", where);
  return is_floating(x.dtype()) ? logical_or(eq(x, INFINITY), eq(x, -INFINITY)) : ne(x, x);
}

Tensor isfinite(const Tensor& x, Where where) {
  const Call call("isfinite", where);
  return is_floating(x.dtype()) ? logical_and(lt(x, INFINITY), gt(x, -INFINITY)) : eq(x, x);
}

Tensor logical_not(const Tensor& x, Where where) {
  Op op("logical_not", where, {x});
  check_bool(x, "x");
  return op.non_differentiable(detail::unary(Unary::logical_not, x), "its result is true or false");
}

Tensor logical_and(const Tensor& a, const Tensor& b, Where where) {
  const Call call("logical_and", where);
  check_bool(a, "a");
  check_bool(b, "b");
  return minimum(a, b);
}

Tensor logical_or(const Tensor& a, const Tensor& b, Where where) {
  const Call call("logical_or", where);
  check_bool(a, "a");
  check_bool(b, "b");
  return maximum(a, b);
}

Tensor logical_xor(const Tensor& a, const Tensor& b, Where where) {
  const Call call("logical_xor", where);
  check_bool(a, "a");
  check_bool(b, "b");
  return ne(a, b);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  Op op("where", where, {condition, a, b});
  check_bool(condition, "condition");
  if (a.dtype() != b.dtype()) {
    throw DTypeError(fmt::format("dtypes differ: a is {}, b is {}; convert one with to(DType)", name_of(a.dtype()),
                                 name_of(b.dtype())));
  }
  const Shape shape = broadcast_shapes(broadcast_shapes(condition.shape(), a.shape()), b.shape());
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  backend(out).where(detail::view(out), detail::view(expanded(condition, shape)), detail::view(expanded(a, shape)),
                     detail::view(expanded(b, shape)));
  return op.record(
      out, [condition = op.save(condition), needs_a = op.needs_grad(1), needs_b = op.needs_grad(2)](const Tensor& g) {
        return Grads{{},
                     needs_a ? linnet::where(condition(), g, 0) : Tensor{},
                     needs_b ? linnet::where(condition(), 0, g) : Tensor{}};
      });
}

Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where) {
  const Call call("where", where);
  return linnet::where(condition, a, number_beside(a, b));
}

Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where) {
  const Call call("where", where);
  return linnet::where(condition, number_beside(b, a), b);
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan, Where where) {
  Op op("isclose", where, {a, b});
  op.common_dtype();
  if (!(rtol >= 0 && atol >= 0)) {
    throw ValueError(fmt::format("rtol is {} and atol {}; neither may be negative", rtol, atol));
  }
  const NoGrad no_grad;
  Tensor close = eq(a, b);
  if (rtol > 0 || atol > 0) {
    const DType dtype = is_floating(a.dtype()) ? a.dtype() : DType::float64;
    const Tensor x = a.to(dtype), y = b.to(dtype), finite = logical_and(isfinite(x), isfinite(y));
    // Without infinities no difference is NaN, which AnomalyMode would report.
    const Tensor p = masked_fill(x.expand(finite.shape()), logical_not(finite), 0);
    const Tensor q = masked_fill(y.expand(finite.shape()), logical_not(finite), 0), difference = abs(sub(p, q));
    const Tensor near = logical_and(le(difference, add(mul(abs(q), rtol), atol)), isfinite(difference));
    close = logical_or(close, logical_and(finite, near));
  }
  if (equal_nan) close = logical_or(close, logical_and(isnan(a), isnan(b)));
  return op.non_differentiable(close, "its result is true or false");
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan, Where where) {
  const Call call("allclose", where);
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where where) {
  const Call call("masked_fill", where);
  check_bool(mask, "mask");
  if (!(broadcast_shapes(x.shape(), mask.shape()) == x.shape())) {
    throw ShapeError(fmt::format("mask{} does not broadcast to x{}; expand x first", to_string(mask.shape()),
                                 to_string(x.shape())));
  }
  return linnet::where(mask, value, x);
}

Tensor operator==(Operand a, Operand b) { return eq(a.tensor, b.tensor, a.where); }
Tensor operator==(Operand a, Scalar b) { return eq(a.tensor, b, a.where); }
Tensor operator==(Scalar a, Operand b) { return eq(b.tensor, a, b.where); }
Tensor operator!=(Operand a, Operand b) { return ne(a.tensor, b.tensor, a.where); }
Tensor operator!=(Operand a, Scalar b) { return ne(a.tensor, b, a.where); }
Tensor operator!=(Scalar a, Operand b) { return ne(b.tensor, a, b.where); }
Tensor operator<(Operand a, Operand b) { return lt(a.tensor, b.tensor, a.where); }
Tensor operator<(Operand a, Scalar b) { return lt(a.tensor, b, a.where); }
Tensor operator<(Scalar a, Operand b) { return gt(b.tensor, a, b.where); }
Tensor operator<=(Operand a, Operand b) { return le(a.tensor, b.tensor, a.where); }
Tensor operator<=(Operand a, Scalar b) { return le(a.tensor, b, a.where); }
Tensor operator<=(Scalar a, Operand b) { return ge(b.tensor, a, b.where); }
Tensor operator>(Operand a, Operand b) { return gt(a.tensor, b.tensor, a.where); }
Tensor operator>(Operand a, Scalar b) { return gt(a.tensor, b, a.where); }
Tensor operator>(Scalar a, Operand b) { return lt(b.tensor, a, b.where); }
Tensor operator>=(Operand a, Operand b) { return ge(a.tensor, b.tensor, a.where); }
Tensor operator>=(Operand a, Scalar b) { return ge(a.tensor, b, a.where); }
Tensor operator>=(Scalar a, Operand b) { return le(b.tensor, a, b.where); }
Tensor operator!(const Tensor& x) { return logical_not(x); }
Tensor operator&&(const Tensor& a, Operand b) { return logical_and(a, b.tensor, b.where); }
Tensor operator||(const Tensor& a, Operand b) { return logical_or(a, b.tensor, b.where); }

}  // namespace linnet
