#pragma once

#include <linnet/core/tensor.h>

/// Arithmetic, element by element.
///
/// Shapes: operands broadcast by NumPy's rule.
/// Dtypes: one dtype, floating or integer. A number takes the tensor's dtype, and is rounded to bfloat16.
/// Gradient: any number of times.
/// Cost: one pass over the elements of the result.
/// Throws: ShapeError for shapes that do not broadcast; DTypeError for dtypes that differ, bool tensors, integers
/// where an op takes floating ones, and a number that the tensor's dtype cannot hold (0.5 beside int64); DeviceError
/// for devices that differ.

namespace linnet {

/// a + b
Tensor add(const Tensor& a, const Tensor& b, Where where = {});
Tensor add(const Tensor& a, Scalar b, Where where = {});

/// a − b
Tensor sub(const Tensor& a, const Tensor& b, Where where = {});
Tensor sub(const Tensor& a, Scalar b, Where where = {});
Tensor sub(Scalar a, const Tensor& b, Where where = {});

/// a · b, element by element; `matmul` is the matrix product.
Tensor mul(const Tensor& a, const Tensor& b, Where where = {});
Tensor mul(const Tensor& a, Scalar b, Where where = {});

/// a / b.
///
/// Dtypes: floating. Convert integers first.
Tensor div(const Tensor& a, const Tensor& b, Where where = {});
Tensor div(const Tensor& a, Scalar b, Where where = {});
Tensor div(Scalar a, const Tensor& b, Where where = {});

/// a − ⌊a/b⌋·b: the rest of a beyond a whole multiple of b. It has b's sign. NaN for a floating b = 0; PyTorch's is
/// NaN also if a/b overflows.
///
/// Gradient: to a that of the result, to b −⌊a/b⌋ times that, which costs as much as `floor_divide`.
/// Cost: an integer tensor b is first searched for 0; from a GPU it is copied to the CPU for that.
/// Throws: ValueError for an integer b = 0; in a Recording also for an integer tensor b that is not a view of its
/// inputs.
Tensor remainder(const Tensor& a, const Tensor& b, Where where = {});
Tensor remainder(const Tensor& a, Scalar b, Where where = {});
Tensor remainder(Scalar a, const Tensor& b, Where where = {});

/// ⌊a/b⌋, Python's a // b: the whole number q for which a is q·b + remainder(a, b). As in PyTorch, floating numbers
/// give a/b for b = 0, and NaN for an infinite a.
///
/// Gradient: 0.
/// Cost: about ten passes, and the check of `remainder`.
/// Throws: as `remainder`. Integers beyond ±2⁶² overflow, as in other ops.
Tensor floor_divide(const Tensor& a, const Tensor& b, Where where = {});
Tensor floor_divide(const Tensor& a, Scalar b, Where where = {});
Tensor floor_divide(Scalar a, const Tensor& b, Where where = {});

/// −x
Tensor neg(const Tensor& x, Where where = {});

/// a to the power b.
///
/// Dtypes: floating.
/// Gradient: at a = 0 the limit, where that is finite.
Tensor pow(const Tensor& a, const Tensor& b, Where where = {});
Tensor pow(const Tensor& a, Scalar b, Where where = {});
Tensor pow(Scalar a, const Tensor& b, Where where = {});

/// The angle in radians, from −π to π, of the vector (b, a).
///
/// Dtypes: floating.
/// Gradient: 0 where a and b are 0. PyTorch's divides by a² + b², which may overflow or vanish.
Tensor atan2(const Tensor& a, const Tensor& b, Where where = {});

/// start + weight·(end − start), which is exactly `start` for weight 0, and `end` for 1, unless end − start
/// overflows.
///
/// Dtypes: floating.
/// Cost: three passes, up to nine with a tensor as weight.
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight, Where where = {});
Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight, Where where = {});

/// The larger of a and b, NaN where either is NaN.
///
/// Dtypes: also bool.
/// Gradient: shared equally where a and b are equal; both get all of it where one is NaN.
Tensor maximum(const Tensor& a, const Tensor& b, Where where = {});
Tensor maximum(const Tensor& a, Scalar b, Where where = {});

/// The smaller of a and b, otherwise as `maximum`.
Tensor minimum(const Tensor& a, const Tensor& b, Where where = {});
Tensor minimum(const Tensor& a, Scalar b, Where where = {});

/// `add`, `sub`, `mul`, `div`, `remainder` and `neg` as operators. Errors name the line of the expression.
Tensor operator+(Operand a, const Tensor& b);
Tensor operator+(Operand a, Scalar b);
Tensor operator+(Scalar a, Operand b);
Tensor operator-(Operand a, const Tensor& b);
Tensor operator-(Operand a, Scalar b);
Tensor operator-(Scalar a, Operand b);
Tensor operator*(Operand a, const Tensor& b);
Tensor operator*(Operand a, Scalar b);
Tensor operator*(Scalar a, Operand b);
Tensor operator/(Operand a, const Tensor& b);
Tensor operator/(Operand a, Scalar b);
Tensor operator/(Scalar a, Operand b);
Tensor operator%(Operand a, const Tensor& b);
Tensor operator%(Operand a, Scalar b);
Tensor operator%(Scalar a, Operand b);
Tensor operator-(Operand x);

/// The left side of an edit in place. It may be a view, as in `x[0] += 1`.
struct Edited {
  Tensor& tensor;             ///< the tensor that is edited
  Where where;                ///< the line of the expression
  bool is_temporary = false;  ///< whether nothing else keeps it, as in `x[0] += 1`

  Edited(Tensor& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : tensor(tensor_), where(where_) {}
  Edited(Tensor&& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor)
      : tensor(tensor_), where(where_), is_temporary(true) {}
};

/// `x += y` writes `x + y` into x's elements, by the rules of `copy_`.
///
/// Throws: ShapeError where the result has another shape than x; AutogradError where ops are recorded and x or y
/// requires a gradient. Write `x = x + y` there. ValueError for an x that is a copy and no view, such as
/// `a.masked_select(mask)`, since the edit would be lost.
Tensor& operator+=(Edited x, const Tensor& y);
Tensor& operator+=(Edited x, Scalar y);
Tensor& operator-=(Edited x, const Tensor& y);
Tensor& operator-=(Edited x, Scalar y);
Tensor& operator*=(Edited x, const Tensor& y);
Tensor& operator*=(Edited x, Scalar y);
Tensor& operator/=(Edited x, const Tensor& y);
Tensor& operator/=(Edited x, Scalar y);

}  // namespace linnet
