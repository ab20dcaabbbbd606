#pragma once

#include <optional>

#include <linnet/core/tensor.h>

/// Functions of one tensor, element by element.
///
/// Dtypes: floating, unless stated otherwise.
/// Gradient: any number of times.
/// Cost: one pass over the elements.
/// Throws: DTypeError for other dtypes.

namespace linnet {

/// x rounded down (`floor`), up (`ceil`), to the nearest integer or the even one of two (`round`), towards 0
/// (`trunc`).
///
/// Dtypes: floating or integer; integers stay as they are.
/// Gradient: 0.
Tensor floor(const Tensor& x, Where where = {});
Tensor ceil(const Tensor& x, Where where = {});
Tensor round(const Tensor& x, Where where = {});
Tensor trunc(const Tensor& x, Where where = {});
/// eˣ
Tensor exp(const Tensor& x, Where where = {});
/// eˣ − 1, accurate near 0. The gradient eˣ is accurate far below 0 too, where PyTorch's, the result + 1, is 0.
Tensor expm1(const Tensor& x, Where where = {});
/// The natural logarithm; −inf at 0, NaN below.
Tensor log(const Tensor& x, Where where = {});
/// log(1 + x), accurate near 0.
Tensor log1p(const Tensor& x, Where where = {});
/// The logarithms to base 2 and 10.
Tensor log2(const Tensor& x, Where where = {});
Tensor log10(const Tensor& x, Where where = {});
/// √x; NaN below 0.
Tensor sqrt(const Tensor& x, Where where = {});
/// 1/√x
Tensor rsqrt(const Tensor& x, Where where = {});
/// |x|
///
/// Dtypes: floating or integer.
/// Gradient: 0 at 0, NaN at NaN, where PyTorch's is 0.
Tensor abs(const Tensor& x, Where where = {});
/// The sign of x: −1, 0 or 1; NaN for NaN, as in NumPy. (PyTorch gives 0 for it.)
///
/// Dtypes: floating or integer.
/// Gradient: 0.
Tensor sign(const Tensor& x, Where where = {});
/// The sine, cosine and tangent of radians.
Tensor sin(const Tensor& x, Where where = {});
Tensor cos(const Tensor& x, Where where = {});
Tensor tan(const Tensor& x, Where where = {});
/// The inverse sine, cosine and tangent, in radians; asin and acos are NaN outside [−1, 1]. `atan2` is in
/// arithmetic.h.
Tensor asin(const Tensor& x, Where where = {});
Tensor acos(const Tensor& x, Where where = {});
Tensor atan(const Tensor& x, Where where = {});
/// The hyperbolic sine and cosine, finite up to the largest number (PyTorch's overflow earlier); `tanh` is an
/// activation.
Tensor sinh(const Tensor& x, Where where = {});
Tensor cosh(const Tensor& x, Where where = {});
/// x²
///
/// Dtypes: floating or integer.
Tensor square(const Tensor& x, Where where = {});
/// 1/x
Tensor reciprocal(const Tensor& x, Where where = {});
/// The error function, 2/√π · ∫₀ˣ exp(−t²) dt.
Tensor erf(const Tensor& x, Where where = {});
/// x with values below `min` raised to it and values above `max` lowered to it; NaN stays.
///
/// Dtypes: floating or integer.
/// Gradient: 1 from min to max inclusive; 0 outside and at NaN.
/// Throws: ValueError when min > max or both are absent.
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {}, Where where = {});
/// x with `nan` in place of NaN, `posinf` in place of ∞ and `neginf` in place of −∞; where these two are absent, the
/// largest and the smallest finite number of the dtype.
///
/// Dtypes: any; only floating ones can hold the replaced numbers.
/// Gradient: 1; 0 where x is replaced.
/// Cost: about six passes.
Tensor nan_to_num(const Tensor& x, Scalar nan = 0, std::optional<Scalar> posinf = {},
                  std::optional<Scalar> neginf = {}, Where where = {});

}  // namespace linnet
