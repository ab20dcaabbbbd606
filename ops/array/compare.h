#pragma once

#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>

/// Comparisons, logic, and choice by a mask.
///
/// Shapes: operands broadcast.
/// Dtypes: operands have one dtype. Comparisons return bool.
/// Gradient: comparisons have none, so operands that require a gradient need not be detached.
/// Cost: one pass over the elements.
/// Throws: ShapeError for shapes that do not broadcast; DTypeError for dtypes that differ.

namespace linnet {

/// a = b, a ≠ b, a < b, a ≤ b, a > b, a ≥ b. A comparison with NaN is false, but `ne` is true.
Tensor eq(const Tensor& a, const Tensor& b, Where where = {});
Tensor eq(const Tensor& a, Scalar b, Where where = {});
Tensor ne(const Tensor& a, const Tensor& b, Where where = {});
Tensor ne(const Tensor& a, Scalar b, Where where = {});
Tensor lt(const Tensor& a, const Tensor& b, Where where = {});
Tensor lt(const Tensor& a, Scalar b, Where where = {});
Tensor le(const Tensor& a, const Tensor& b, Where where = {});
Tensor le(const Tensor& a, Scalar b, Where where = {});
Tensor gt(const Tensor& a, const Tensor& b, Where where = {});
Tensor gt(const Tensor& a, Scalar b, Where where = {});
Tensor ge(const Tensor& a, const Tensor& b, Where where = {});
Tensor ge(const Tensor& a, Scalar b, Where where = {});

/// True where x is NaN (`isnan`), is ∞ or −∞ (`isinf`), or is neither (`isfinite`).
///
/// Cost: three passes, but one for `isnan`.
Tensor isnan(const Tensor& x, Where where = {});
Tensor isinf(const Tensor& x, Where where = {});
Tensor isfinite(const Tensor& x, Where where = {});

/// Not, and, or, exclusive or, element by element.
///
/// Dtypes: bool.
/// Throws: DTypeError for others; `ne(x, 0)` converts them.
Tensor logical_not(const Tensor& x, Where where = {});
Tensor logical_and(const Tensor& a, const Tensor& b, Where where = {});
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = {});
Tensor logical_xor(const Tensor& a, const Tensor& b, Where where = {});

/// a where `condition` is true, b elsewhere.
///
/// Dtypes: `condition` is bool; a and b have one dtype, of any kind.
/// Gradient: any number of times, to a and b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = {});
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where = {});
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where = {});

/// True where |a − b| ≤ atol + rtol·|b|. Equal infinities are close. A NaN is close to nothing, except with
/// `equal_nan` to another NaN.
///
/// Dtypes: any. Integers and bools are compared in float64, or exactly when rtol and atol are 0.
/// Cost: about ten passes.
/// Throws: ValueError for a negative rtol or atol.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
               Where where = {});
/// Whether `isclose` is true everywhere.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
              Where where = {});

/// x with `value` where `mask` is true.
///
/// Shapes: `mask` broadcasts to x's shape.
/// Dtypes: `mask` is bool.
/// Gradient: any number of times, to x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where where = {});

/// The comparisons above as operators, element by element. `a.is(b)` tells whether two handles have the same tensor,
/// and `all(a == b).item<bool>()` whether all elements are equal.
Tensor operator==(Operand a, Operand b);
Tensor operator==(Operand a, Scalar b);
Tensor operator==(Scalar a, Operand b);
Tensor operator!=(Operand a, Operand b);
Tensor operator!=(Operand a, Scalar b);
Tensor operator!=(Scalar a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<(Operand a, Scalar b);
Tensor operator<(Scalar a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator<=(Operand a, Scalar b);
Tensor operator<=(Scalar a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>(Operand a, Scalar b);
Tensor operator>(Scalar a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor operator>=(Operand a, Scalar b);
Tensor operator>=(Scalar a, Operand b);

/// `logical_not`, `logical_and` and `logical_or`. Both sides are computed. (The left operand is not an Operand: with
/// a conversion these would be ambiguous with C++'s own `!`, `&&` and `||` of bools.)
Tensor operator!(const Tensor& x);
Tensor operator&&(const Tensor& a, Operand b);
Tensor operator||(const Tensor& a, Operand b);

}  // namespace linnet
