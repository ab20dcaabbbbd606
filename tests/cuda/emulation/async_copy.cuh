#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "failure.h"
#include "grid.h"

/// Replaces cuda/device/async_copy.cuh, whose functions are single instructions. A copy is done as late as possible:
/// when its thread waits for it.

namespace linnet::emulation {

struct AsyncCopy {
  void* to;
  const void* from;
  bool has;
};
/// The copies that each thread of the block has started and not waited for.
inline std::vector<AsyncCopy> async_copies[kMostThreads];

}  // namespace linnet::emulation

namespace linnet::cuda {

inline void copy_async(void* to, const void* from, bool has) {
  for (const void* address : {static_cast<const void*>(to), has ? from : to}) {
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0)
      emulation::fail("cp.async: %p is no multiple of 16 bytes", address);
  }
  emulation::async_copies[threadIdx.x].push_back({to, from, has});
}

inline void wait_for_copies() {
  for (const auto& [to, from, has] : emulation::async_copies[threadIdx.x]) {
    has ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
  }
  emulation::async_copies[threadIdx.x].clear();
}

}  // namespace linnet::cuda
