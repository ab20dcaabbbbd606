#pragma once

#include <linnet/core/tensor.h>

/// Arithmetic, element by element. Operands broadcast by NumPy's rule and have one dtype, floating or
/// integer; a number takes the tensor's dtype, and DTypeError is thrown when that cannot hold it (0.5 beside
/// an int64 tensor); beside bfloat16 it is rounded to that. Throws ShapeError for shapes that do not broadcast,
/// DTypeError for dtypes that differ, bool tensors and, in `div` and `pow`, integers; DeviceError for devices that
/// differ. One pass over the elements of the result.

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

/// a / b. Of floating tensors: convert integers first.
Tensor div(const Tensor& a, const Tensor& b, Where where = {});
Tensor div(const Tensor& a, Scalar b, Where where = {});
Tensor div(Scalar a, const Tensor& b, Where where = {});

/// −x
Tensor neg(const Tensor& x, Where where = {});

/// a to the power b, of floating tensors. Gradients at a = 0 are the limits where these are finite.
Tensor pow(const Tensor& a, const Tensor& b, Where where = {});
Tensor pow(const Tensor& a, Scalar b, Where where = {});
Tensor pow(Scalar a, const Tensor& b, Where where = {});

/// The larger of a and b, NaN where either is. The gradient is shared equally where they are equal, and goes to both
/// where one is NaN. Takes bool too.
Tensor maximum(const Tensor& a, const Tensor& b, Where where = {});
Tensor maximum(const Tensor& a, Scalar b, Where where = {});

/// The smaller of a and b; otherwise as `maximum`.
Tensor minimum(const Tensor& a, const Tensor& b, Where where = {});
Tensor minimum(const Tensor& a, Scalar b, Where where = {});

/// `add`, `sub`, `mul`, `div` and `neg`, whose errors name the line of the expression.
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
Tensor operator-(Operand x);

/// The tensor on the left of an edit in place, which may be a view: `x[0] += 1`.
struct Edited {
  Tensor& tensor;
  Where where;

  Edited(Tensor& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : tensor(tensor_), where(where_) {}
  Edited(Tensor&& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor)
      : tensor(tensor_), where(where_) {}
};

/// `x += y` writes `x + y` into x's elements, by the rules of `copy_`. While ops are recorded, neither may require a
/// gradient (AutogradError): write `x = x + y` there. Throws ShapeError where the result has another shape than x.
Tensor& operator+=(Edited x, const Tensor& y);
Tensor& operator+=(Edited x, Scalar y);
Tensor& operator-=(Edited x, const Tensor& y);
Tensor& operator-=(Edited x, Scalar y);
Tensor& operator*=(Edited x, const Tensor& y);
Tensor& operator*=(Edited x, Scalar y);
Tensor& operator/=(Edited x, const Tensor& y);
Tensor& operator/=(Edited x, Scalar y);

}  // namespace linnet
