#pragma once

#include <cstdint>

#include <linnet/cuda/device/allocator.cuh>

namespace linnet::cuda {

/// Uninitialised scratch memory of a kernel. It comes from the tensors' allocator, so that it is reused and counted.
/// It may be released as soon as the kernels that use it are launched, because all work is in one stream. A count of
/// 0 takes no memory.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(T))),
        data_(bytes_ == 0 ? nullptr : static_cast<T*>(allocate(bytes_))) {}
  ~Scratch() {
    if (data_ != nullptr) deallocate(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }

 private:
  int64_t bytes_;
  T* data_;
};

}  // namespace linnet::cuda
