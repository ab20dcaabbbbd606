#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/core/tensor.h>

/// Tensors from nothing, and from the caller's numbers. None requires a gradient until `set_requires_grad`. All throw
/// ShapeError for a negative size, MemoryError when there is not room, and DeviceError for a device that is not
/// there.

namespace linnet {

/// Zeros or ones, of any dtype.
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, Where where = {});
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, Where where = {});
/// Every element `value`. Throws DTypeError when the dtype cannot hold it: 0.5 as an int64, say.
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::float32, Device device = Device::cpu,
            Where where = {});

/// With x's shape, dtype and device; no gradient flows to x.
Tensor zeros_like(const Tensor& x, Where where = {});
Tensor ones_like(const Tensor& x, Where where = {});
Tensor full_like(const Tensor& x, Scalar value, Where where = {});

/// A tensor of rank 0. Throws DTypeError when the dtype cannot hold the value.
Tensor scalar(Scalar value, DType dtype = DType::float32, Where where = {});

/// start, start + step, … below stop (above it when step < 0). int64 when all three are integers, else
/// float32, unless a dtype is given. Throws ValueError when step is 0 or leads away from stop, and DTypeError when
/// the dtype cannot hold the numbers.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<DType> dtype = {}, Where where = {});
/// 0, 1, … below stop.
Tensor arange(Scalar stop, std::optional<DType> dtype = {}, Where where = {});

/// `steps` evenly spaced values from start to stop, both included: [steps]. Throws ValueError when steps < 0.
Tensor linspace(double start, double stop, int64_t steps, DType dtype = DType::float32, Where where = {});

/// [n, m] with ones on the diagonal; m = −1 stands for n.
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::float32, Where where = {});

/// `tensor({1.5, 2.5})`, `tensor({1, 2, 3, 4}, {2, 2})`: the numbers in row-major order. One size of `shape`
/// may be −1, to be derived. Throws ShapeError when the numbers do not fill the shape.
Tensor tensor(std::initializer_list<double> values, const Shape& shape = {-1}, DType dtype = DType::float32,
              Where where = {});
/// `tensor({3, 1, 2}, DType::int64)`
Tensor tensor(std::initializer_list<double> values, DType dtype, Where where = {});

/// `tensor({{1, 2}, {3, 4}})`: rows of equally many numbers; ShapeError for others. A column is
/// `tensor({1, 2}, {2, 1})`.
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = DType::float32,
              Where where = {});

/// A copy of `values`, of the dtype that T names; of T as `dtype_of` has them. Throws ShapeError when the numbers do
/// not fill the shape.
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape = {-1}, Where where = {}) {
  Call call("tensor", where);
  Tensor out = Tensor::empty({static_cast<int64_t>(values.size())}, dtype_of<T>);
  std::copy(values.begin(), values.end(), out.mutable_data<T>().begin());
  return out.reshape(shape);
}

/// The same of any numbers that lie in a row.
template <class T>
Tensor from_span(std::span<const T> values, const Shape& shape = {-1}, Where where = {}) {
  Call call("from_span", where);
  Tensor out = Tensor::empty({static_cast<int64_t>(values.size())}, dtype_of<T>);
  std::copy(values.begin(), values.end(), out.mutable_data<T>().begin());
  return out.reshape(shape);
}

namespace detail {
/// `from_memory` for elements of any type.
Tensor from_memory(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive, Where where);
}  // namespace detail

/// Wraps row-major numbers without a copy. They must stay valid while any tensor shares them: `keep_alive` is
/// held until then, and may be null when they outlive all tensors anyway.
template <class T>
Tensor from_memory(T* data, const Shape& shape, std::shared_ptr<void> keep_alive, Where where = {}) {
  return detail::from_memory(data, shape, dtype_of<T>, std::move(keep_alive), where);
}

}  // namespace linnet
