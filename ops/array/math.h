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

/// eˣ
Tensor exp(const Tensor& x, Where where = {});
/// The natural logarithm; −inf at 0, NaN below.
Tensor log(const Tensor& x, Where where = {});
/// √x; NaN below 0.
Tensor sqrt(const Tensor& x, Where where = {});
/// 1/√x
Tensor rsqrt(const Tensor& x, Where where = {});
/// |x|
///
/// Dtypes: floating or integer.
/// Gradient: 0 at 0, NaN at NaN.
Tensor abs(const Tensor& x, Where where = {});
/// −1, 0 or 1; NaN for NaN.
///
/// Dtypes: floating or integer.
/// Gradient: 0.
Tensor sign(const Tensor& x, Where where = {});
/// The sine and cosine of radians.
Tensor sin(const Tensor& x, Where where = {});
Tensor cos(const Tensor& x, Where where = {});
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

}  // namespace linnet
