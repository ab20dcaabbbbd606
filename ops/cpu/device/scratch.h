#pragma once

#include <cstdint>

#include <linnet/core/device/allocator.h>

namespace linnet::cpu::LINNET_ISA {

/// Uninitialised scratch memory of a kernel, from the tensors' allocator, so that it is reused and counted. Must be
/// destroyed on the thread that made it. A count of 0 allocates nothing.
template <class T>
class Scratch {
 public:
  /// Throws: MemoryError.
  explicit Scratch(int64_t count)
      : bytes_(bytes_of(count)),
        data_(bytes_ == 0 ? nullptr : static_cast<T*>(cpu_memory::allocate_scratch(bytes_))) {}
  ~Scratch() {
    if (data_ != nullptr) cpu_memory::deallocate_scratch(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  /// As many bytes as 64 bits can count, which no machine has, if they cannot count these.
  static int64_t bytes_of(int64_t count) {
    int64_t bytes = 0;
    return __builtin_mul_overflow(count, static_cast<int64_t>(sizeof(T)), &bytes) ? INT64_MAX : bytes;
  }

  int64_t bytes_;
  T* data_;
};

}  // namespace linnet::cpu::LINNET_ISA
