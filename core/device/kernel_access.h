#pragma once

#include <cstdint>
#include <memory>

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>

/// Access to a tensor for ops, beyond tensor.h: its memory for kernels, its version counter, its node in the tape.

namespace linnet {

struct Node;

/// The kernels of the tensor's device.
inline const Backend& backend(const Tensor& x) { return backend(x.device()); }

namespace detail {

/// The tensor as a kernel sees it, valid while `x` lives.
View view(const Tensor& x);
/// A view of x's elements without history, with any strides, and an offset in elements from x's first element.
Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset);
/// A view without history of `length` indices start, start + step, … of a dim. Unlike an op's result, it may hold
/// elements that are not set yet: AnomalyMode does not check it.
Tensor narrow(const Tensor& x, int dim, int64_t start, int64_t length, int64_t step = 1);
/// The whole memory that `x` is a view of, as a row-major tensor of `shape` without history. Returns an undefined
/// tensor if the memory has another number of elements or comes from `from_memory`.
Tensor whole_storage_as(const Tensor& x, const Shape& shape);
/// A tensor over the caller's memory, for `from_memory` in ops/array/creation.h.
Tensor borrow(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive);
/// Whether no other tensor shares x's elements, and they are not the caller's memory.
bool owns_elements_alone(const Tensor& x);

/// The number of in-place edits of the elements so far, through any tensor that shares them.
uint64_t version(const Tensor& x);
/// Counts an in-place edit.
void bump_version(const Tensor& x);

/// The tensor's node in the tape; null if it has none.
const std::shared_ptr<Node>& node(const Tensor& x);
void set_node(const Tensor& x, std::shared_ptr<Node> node);

}  // namespace detail
}  // namespace linnet
