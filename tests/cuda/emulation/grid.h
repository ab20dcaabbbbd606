#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// A grid of threads, run by one thread of the CPU: block after block, and in each block warp after warp and lane
/// after lane, each until it must wait for others. Thus whatever is not ordered by a barrier happens in an order that
/// is far from a GPU's, and in the other one with LINNET_EMULATION_ORDER=reverse.

namespace linnet::emulation {

/// A grid is cut to these, so that threads step on to further items, as they do where a GPU's limit cuts it.
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

/// Where a thread waits for others: each of its warp, or of its block, must come to the same.
enum class Call { shfl, shfl_xor, shfl_up, mma, ldmatrix, syncthreads, syncthreads_and, exit };

/// Whether all threads of the block vote so.
bool wait_for_block(Call call, bool vote);
/// The value that the lane `source` of the warp gives.
uint64_t exchange(Call call, uint64_t value, unsigned source);
/// Until all lanes of the warp have come there.
void wait_for_warp(Call call);
/// Of threads in one warp, each must come to the same ones in the same order; they do not wait for each other.
void expect_of_warp(uint64_t what);

/// The number of this thread in its warp.
unsigned lane();

/// Called by each thread that comes to a variable in shared memory: the first of the block fills it with NaN.
void use_shared(void* data, size_t bytes);

}  // namespace linnet::emulation
