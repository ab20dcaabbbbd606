#pragma once

#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>

/// Comparisons, logic, and choice by a mask. Operands broadcast. Results of comparisons are bool, so they carry no
/// gradient, and operands that require one need not be detached.
/// Shapes that do not broadcast are a ShapeError, dtypes that differ a DTypeError. One pass over the elements.

namespace linnet {

/// a = b, a ≠ b, a < b, a ≤ b, a > b, a ≥ b: bool. A comparison with NaN is false, but for `ne`.
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

/// True where x is NaN.
Tensor isnan(const Tensor& x, Where where = {});

/// Of bool tensors; DTypeError for others, whose truth `ne(x, 0)` gives.
Tensor logical_not(const Tensor& x, Where where = {});
Tensor logical_and(const Tensor& a, const Tensor& b, Where where = {});
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = {});

/// a where `condition` (bool) is true, b elsewhere. Of the operands, a and b have one dtype, any, and may have
/// gradients.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = {});
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where = {});
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where = {});

/// Whether |a − b| ≤ atol + rtol·|b| everywhere, of floating tensors whose shapes broadcast. Equal infinities are
/// close, and a NaN is close to nothing unless `equal_nan`, which makes it close to another.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
              Where where = {});

/// x with `value` where `mask` (bool, broadcast to x's shape) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where where = {});

/// The functions above as operators, element by element: bool tensors. `a.is(b)` tells whether two handles are of one
/// tensor, and `all(a == b).item<bool>()` whether all elements are equal.
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

/// `logical_not`, `logical_and` and `logical_or`. Both sides are computed. (A left operand is taken as it is: by a
/// conversion, it would be as near to C++'s own `!`, `&&` and `||` of bools.)
Tensor operator!(const Tensor& x);
Tensor operator&&(const Tensor& a, Operand b);
Tensor operator||(const Tensor& a, Operand b);

}  // namespace linnet
