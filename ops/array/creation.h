#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/core/tensor.h>

/// New tensors. None requires a gradient until `set_requires_grad`.
///
/// Throws: ShapeError for a negative size; MemoryError when there is not enough memory; DTypeError for bfloat16 on
/// the CPU; DeviceError for a device that was not built or does not answer.

namespace linnet {

/// Every element is 0 (`zeros`) or 1 (`ones`).
///
/// Dtypes: any.
Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, Where where = {});
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu, Where where = {});
/// Every element is `value`. The dtype does not depend on it, while torch.full({2}, 1) is int64.
///
/// Throws: DTypeError when the dtype cannot hold it: 0.5 as an int64, say.
Tensor full(const Shape& shape, Scalar value, DType dtype = DType::float32, Device device = Device::cpu,
            Where where = {});

/// 0 (`zeros_like`), 1 (`ones_like`) or `value` in x's shape, dtype and device. No gradient flows to x.
Tensor zeros_like(const Tensor& x, Where where = {});
Tensor ones_like(const Tensor& x, Where where = {});
Tensor full_like(const Tensor& x, Scalar value, Where where = {});

/// A tensor of rank 0.
///
/// Throws: DTypeError when the dtype cannot hold the value.
Tensor scalar(Scalar value, DType dtype = DType::float32, Where where = {});

/// start, start + step, … below stop, or above stop when step < 0.
///
/// Dtypes: any. Without a dtype, int64 when all three numbers are integers, and float32 otherwise.
/// Throws: ValueError when step is 0 or leads away from stop; DTypeError when the dtype cannot hold the numbers.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<DType> dtype = {}, Where where = {});
/// 0, 1, … below stop.
Tensor arange(Scalar stop, std::optional<DType> dtype = {}, Where where = {});

/// `steps` evenly spaced values from start to stop, both included; `start` alone for one step.
///
/// Shapes: [steps].
/// Throws: ValueError when steps < 0.
Tensor linspace(double start, double stop, int64_t steps, DType dtype = DType::float32, Where where = {});

/// Ones on the diagonal, zeros elsewhere.
///
/// Shapes: [n, m], or [n, n] for m = −1.
/// Throws: ShapeError for any other negative size.
Tensor eye(int64_t n, int64_t m = -1, DType dtype = DType::float32, Where where = {});

/// The numbers in row-major order: `tensor({1.5, 2.5})`, `tensor({1, 2, 3, 4}, {2, 2})`. One size of `shape` may be
/// −1 and is then derived. The numbers of a list in braces are doubles in C++, so that `tensor({1, 2})` is float32,
/// while torch.tensor([1, 2]) is int64. Integer variables go into a vector, since C++ refuses them in a list of
/// doubles.
///
/// Throws: ShapeError when the numbers do not fill the shape; DTypeError for a number that the dtype cannot hold.
Tensor tensor(std::initializer_list<double> values, const Shape& shape = {-1}, DType dtype = DType::float32,
              Where where = {});
/// The numbers with a dtype: `tensor({3, 1, 2}, DType::int64)`.
Tensor tensor(std::initializer_list<double> values, DType dtype, Where where = {});

/// A matrix of rows: `tensor({{1, 2}, {3, 4}})`. A column is `tensor({1, 2}, {2, 1})`, and an empty tensor is
/// `zeros({0})`: `{{1}, {2}}` and `{}` could mean either kind of list, so g++ refuses them.
///
/// Throws: ShapeError unless all rows have the same length; DTypeError for a number that the dtype cannot hold.
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = DType::float32,
              Where where = {});

/// A copy of `values`.
///
/// Dtypes: `dtype_of<T>`: int32 for a vector of int, int64 for one of int64_t.
/// Throws: ShapeError when the numbers do not fill the shape.
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape = {-1}, Where where = {}) {
  Call call("tensor", where);
  Tensor out = Tensor::empty({static_cast<int64_t>(values.size())}, dtype_of<T>);
  std::copy(values.begin(), values.end(), out.mutable_data<T>().begin());
  return out.reshape(shape);
}

/// A copy of contiguous numbers, otherwise as above.
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

/// Wraps row-major numbers without a copy. They must stay valid while any tensor shares them. `keep_alive` is held
/// that long; it may be null when the numbers outlive all tensors.
template <class T>
Tensor from_memory(T* data, const Shape& shape, std::shared_ptr<void> keep_alive, Where where = {}) {
  return detail::from_memory(data, shape, dtype_of<T>, std::move(keep_alive), where);
}

}  // namespace linnet
