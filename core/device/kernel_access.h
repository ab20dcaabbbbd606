#pragma once

#include <cstdint>
#include <memory>

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>

/// What ops need of a tensor beside what tensor.h shows to everyone: its memory for kernels, the count of its edits,
/// its place in the tape.

namespace linnet {

struct Node;

/// The kernels of the tensor's device.
inline const Backend& backend(const Tensor& x) { return backend(x.device()); }

namespace detail {

/// What a kernel sees of the tensor. Borrowed: valid while `x` lives.
View view(const Tensor& x);
/// A view of x's elements with any strides and an offset in elements from its first one; no history.
Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset);
/// All of the memory that `x` is a view of, as a row-major tensor of `shape`, no history; undefined where it holds
/// another number of elements, or is the caller's.
Tensor whole_storage_as(const Tensor& x, const Shape& shape);
/// A tensor of memory of the caller's, as `from_memory` in ops/array/creation.h makes them.
Tensor borrow(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive);
/// True when no other tensor shares x's elements, and they are no memory of the caller's.
bool owns_elements_alone(const Tensor& x);

/// Edits made to the elements so far, through any tensor that shares them.
uint64_t version(const Tensor& x);
/// Notes an in-place edit.
void bump_version(const Tensor& x);

/// Its place in the tape; null where it has none.
const std::shared_ptr<Node>& node(const Tensor& x);
void set_node(const Tensor& x, std::shared_ptr<Node> node);

}  // namespace detail
}  // namespace linnet
