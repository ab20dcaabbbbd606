#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// A grid of threads, run by one thread of the CPU: block after block, in each block warp after warp, and in each
/// warp lane after lane. Each runs until it must wait for others. So operations that no barrier orders happen in an
/// order that is far from a GPU's, and in the opposite order with LINNET_EMULATION_ORDER=reverse.

namespace linnet::emulation {

/// A grid is cut to this many blocks, so that threads loop on to further items, as on a GPU that limits the grid.
constexpr unsigned kMostBlocks = 3;
constexpr int kMostThreads = 1024;  ///< of a block
constexpr unsigned kWarp = 32;

struct Index {
  unsigned x;
};
extern Index threadIdx, blockIdx, blockDim, gridDim;

struct Grid {
  unsigned blocks, threads;
  const void* kernel;  ///< its address, for errors
};

/// Calls `thread` as each thread of the grid.
void run_grid(const Grid& grid, const std::function<void()>& thread);

/// A call in which a thread waits for others: all threads of its warp, or of its block, must reach the same call.
enum class Call { shfl, shfl_xor, shfl_up, mma, ldmatrix, syncwarp, syncthreads, syncthreads_and, exit };

/// Whether all threads of the block vote true.
bool wait_for_block(Call call, bool vote);
/// The value that the lane `source` of the warp passes.
uint64_t exchange(Call call, uint64_t value, unsigned source);
/// Waits until all lanes of the warp have reached the call.
void wait_for_warp(Call call);
/// All threads of a warp must make these calls in the same order; they do not wait for each other.
void expect_of_warp(uint64_t what);

/// The number of this thread in its warp.
unsigned lane();

/// Called by each thread that reaches a variable in shared memory: the first of the block fills it with NaN.
void use_shared(void* data, size_t bytes);

}  // namespace linnet::emulation
