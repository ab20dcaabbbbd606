#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/tensor.h>

/// The data behind a Tensor. Internal to core.

namespace linnet {

/// A block of memory and the count of edits made to it; freed with its last tensor.
struct [[gnu::visibility("hidden")]] Storage {
  Storage(int64_t size, Device where);
  Storage(void* elements, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data;
  int64_t bytes = 0;
  Device device;
  std::atomic<uint64_t> version = 0;  ///< atomic, because two threads may edit different views
  std::shared_ptr<void> keep_alive;
  bool borrowed = false;
};

struct [[gnu::visibility("hidden")]] Tensor::Impl {
  std::shared_ptr<Storage> storage;
  int64_t offset;  ///< of element 0 in the storage, in elements
  Shape shape;
  Strides strides;
  DType dtype;
  std::shared_ptr<Node>
      node;  ///< of the op that made the tensor, or of a leaf; null if the tensor requires no gradient
};

/// Access from a Tensor to the data behind it.
struct [[gnu::visibility("hidden")]] detail::TensorAccess {
  using Impl = Tensor::Impl;
  static Impl& impl(const Tensor& x) { return x.get(); }
  static Tensor make(Impl impl) { return Tensor(std::make_shared<Impl>(std::move(impl))); }
  static bool is_only_handle(const Tensor& x) { return x.impl_.use_count() == 1; }
};

}  // namespace linnet
