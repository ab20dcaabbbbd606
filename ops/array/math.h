#pragma once

#include <optional>

#include <linnet/core/tensor.h>

/// Functions of one tensor, element by element. Floating dtypes, unless stated otherwise; DTypeError for others. One
/// pass over the elements.

namespace linnet {

/// eˣ
Tensor exp(const Tensor& x, Where where = {});
/// The natural logarithm; −inf at 0, NaN below.
Tensor log(const Tensor& x, Where where = {});
/// √x; NaN below 0.
Tensor sqrt(const Tensor& x, Where where = {});
/// 1/√x
Tensor rsqrt(const Tensor& x, Where where = {});
/// Floating or integer. The gradient at 0 is 0, and at NaN it is NaN.
Tensor abs(const Tensor& x, Where where = {});
/// −1, 0 or 1; NaN of NaN. Floating or integer. The gradient is 0.
Tensor sign(const Tensor& x, Where where = {});
/// The sine and cosine of radians.
Tensor sin(const Tensor& x, Where where = {});
Tensor cos(const Tensor& x, Where where = {});
/// x². Floating or integer.
Tensor square(const Tensor& x, Where where = {});
/// 1/x
Tensor reciprocal(const Tensor& x, Where where = {});
/// The error function, 2/√π · ∫₀ˣ exp(−t²) dt.
Tensor erf(const Tensor& x, Where where = {});
/// x with values below `min` raised to it and values above `max` lowered to it; NaN stays. Floating or
/// integer. The gradient is 1 from min to max, both included, and 0 outside and at NaN. Throws ValueError when min >
/// max or both are absent.
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {}, Where where = {});

}  // namespace linnet
