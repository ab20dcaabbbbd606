#pragma once

#include <cstdint>

/// Copies from global to shared memory for which a thread does not wait (PTX ISA, cp.async, from sm_80 on). So the
/// next tile arrives while a block computes with the current one.

namespace linnet::cuda {

/// Starts to copy 16 aligned bytes. If not `has`, it writes 16 bytes of zeros and does not read `from`.
__device__ inline void copy_async(void* to, const void* from, bool has) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from), "r"(has ? 16 : 0)
               : "memory");
#endif
}

/// Waits for all copies that this thread has started. Other threads see them after the next barrier.
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

}  // namespace linnet::cuda
