#pragma once

#include <cstdint>

#include <linnet/core/device/allocator.h>

namespace linnet::cpu::LINNET_ISA {

/// Uninitialised scratch memory of a kernel, from the tensors' allocator, so that it is reused and counted. Must be
/// destroyed on the thread that made it. A count of 0 allocates nothing.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * static_cast<int64_t>(sizeof(T))),
        data_(bytes_ == 0 ? nullptr : static_cast<T*>(cpu_memory::allocate_scratch(bytes_))) {}
  ~Scratch() {
    if (data_ != nullptr) cpu_memory::deallocate_scratch(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  int64_t bytes_;
  T* data_;
};

}  // namespace linnet::cpu::LINNET_ISA
