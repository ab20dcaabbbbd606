#pragma once

#include <algorithm>
#include <cstdint>

#include <linnet/cuda/device/device.cuh>

/// Launches of kernels with grid-stride loops: each thread starts at its own index and steps by the number of
/// threads, so that a grid of any size does any amount of work. The order of a sum depends on sizes alone, never on
/// the grid.

namespace linnet::cuda {

constexpr int kThreads = 256;  ///< threads of a block, unless a kernel says otherwise
constexpr int64_t kMaxBlocks = 0x7fffffff;

/// Launches a kernel on `blocks` blocks, or on CUDA's limit if that is less; does nothing for 0 blocks. Throws
/// DeviceError.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int64_t blocks, int threads, const Arguments&... arguments) {
  if (blocks == 0) return;
  kernel<<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), threads, 0, stream()>>>(arguments...);
  check_launch();
}

__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The blocks of kThreads threads that give each of `count` items a thread.
constexpr int64_t blocks_for(int64_t count) { return ceil_div(count, kThreads); }

/// The first item of this thread, and the distance to its next one.
__device__ inline int64_t first_item() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t item_step() { return int64_t{gridDim.x} * blockDim.x; }

}  // namespace linnet::cuda
