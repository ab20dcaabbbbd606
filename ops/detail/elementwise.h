#pragma once

#include <limits>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>

/// Helpers that the elementwise ops share. Internal to ops/.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// x broadcast to `shape`, without history, for kernels.
inline Tensor expanded(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : x.detach().expand(shape);
}

/// f(x) by the device's kernel.
inline Tensor unary(Unary kind, const Tensor& x) {
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(out).unary(kind, detail::view(out), detail::view(x));
  return out;
}

/// f(a, b), broadcast, by the device's kernel.
inline Tensor binary(Binary kind, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  backend(out).binary(kind, detail::view(out), detail::view(expanded(a, shape)), detail::view(expanded(b, shape)));
  return out;
}

/// g·eˣ where x ≤ 0, g elsewhere: the backward of elu and of linear attention's features. Defined beside elu.
Tensor elu_backward(const Tensor& g, const Tensor& x);

/// The largest number of a floating dtype.
inline double largest_finite(DType dtype) {
  if (dtype == DType::float64) return std::numeric_limits<double>::max();
  return dtype == DType::float32 ? std::numeric_limits<float>::max() : 0x1.fep127;  // bfloat16 has 8 digits
}

/// A number as a tensor of rank 0, with x's dtype and device, for an op with x. Beside a bool it is 0 or 1: others
/// would become true, and eq(x, 2) would be eq(x, true).
///
/// Throws: DTypeError.
inline Tensor number_beside(const Tensor& x, Scalar value) {
  check_number(value, x.dtype());
  if (x.dtype() == DType::boolean && value.real != 0 && value.real != 1) {
    throw DTypeError(
        fmt::format("the number {} does not fit bool, which is 0 or 1; convert x with to(DType::int64)", value.real));
  }
  Tensor number = Tensor::empty({}, x.dtype(), x.device());
  backend(number).fill(detail::view(number), value);
  return number;
}

}  // namespace detail
}  // namespace linnet
