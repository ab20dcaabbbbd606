// # 14. The same kernel on a GPU
//
// A GPU has thousands of small processors. Many threads run a *kernel*: `blockIdx` numbers their *blocks*, and
// `threadIdx` the threads of one, which share a small fast memory. This chapter explains a kernel for matrix
// products, and simulates its threads on the CPU, one after the other, so that any machine can run it.

#include <fmt/core.h>

#include <set>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## The kernel
//
// Each block of 16 × 16 threads computes a tile of $c$, one number per thread. As on the CPU, tiles of $a$ and $b$
// are loaded into fast memory once and used 16 times from there. In CUDA the kernel is:
//
// ```cuda
// __global__ void product(int n, const float* a, const float* b, float* c) {
//   __shared__ float tile_a[16][16], tile_b[16][16];        // shared by the block
//   const int x = threadIdx.x, y = threadIdx.y;
//   const int col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
//   float sum = 0;                                          // a register of the thread
//   for (int k0 = 0; k0 < n; k0 += 16) {
//     tile_a[y][x] = a[row * n + k0 + x];                   // each thread loads one number of each tile
//     tile_b[y][x] = b[(k0 + y) * n + col];
//     __syncthreads();                                      // until all threads have loaded
//     for (int k = 0; k < 16; ++k) sum += tile_a[y][k] * tile_b[k][x];
//     __syncthreads();                                      // until all have read, before the next tile comes
//   }
//   c[row * n + col] = sum;
// }
// product<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(n, a, b, c);
// ```
//
// `__syncthreads` is a barrier: no thread continues before all threads of its block have reached it.
//
// ## Simulated on the CPU
//
// The threads may run the code between two barriers in any order. So a loop over a block's threads can simulate each
// such part. A thread's registers must survive from one part to the next, so they become arrays with one element per
// thread.

constexpr int kTile = 16;

struct Thread {
  int x, y;
};

template <class Part>
void each_thread(const Part& part) {
  for (int y = 0; y < kTile; ++y) {
    for (int x = 0; x < kTile; ++x) part(Thread{x, y});
  }
}

void run_block(int block_x, int block_y, int n, const float* a, const float* b, float* c) {
  float tile_a[kTile][kTile], tile_b[kTile][kTile];  // shared memory
  float sum[kTile][kTile] = {};                      // a register of each thread
  const auto col = [&](Thread t) { return block_x * kTile + t.x; };
  const auto row = [&](Thread t) { return block_y * kTile + t.y; };
  for (int k0 = 0; k0 < n; k0 += kTile) {
    each_thread([&](Thread t) {
      tile_a[t.y][t.x] = a[row(t) * n + k0 + t.x];
      tile_b[t.y][t.x] = b[(k0 + t.y) * n + col(t)];
    });  // the first barrier
    each_thread([&](Thread t) {
      for (int k = 0; k < kTile; ++k) sum[t.y][t.x] += tile_a[t.y][k] * tile_b[k][t.x];
    });  // the second one
  }
  each_thread([&](Thread t) { c[row(t) * n + col(t)] = sum[t.y][t.x]; });
}

// ## How a warp reads memory
//
// A *warp*, 32 threads with consecutive numbers, executes each step together. If the addresses lie in one segment of
// 128 bytes, one access serves them all: it is *coalesced*. With `x` and `y` exchanged, a warp reads down columns.

size_t accesses(int n, bool exchanged) {
  std::set<int> pieces;  // 128-byte segments of b that a warp reads; a warp is two rows of 16 threads
  for (int thread = 0; thread < 32; ++thread) {
    const int x = thread % kTile, y = thread / kTile;
    pieces.insert((exchanged ? x * n + y : y * n + x) * int(sizeof(float)) / 128);
  }
  return pieces.size();
}

int main() {
  const int n = 128;
  Generator rng(1);
  const Tensor a = randn({n, n}, rng), b = randn({n, n}, rng);
  Tensor c = zeros({n, n});
  float* numbers = c.mutable_data<float>().data();
  for (int y = 0; y < n / kTile; ++y) {
    for (int x = 0; x < n / kTile; ++x) run_block(x, y, n, a.data<float>().data(), b.data<float>().data(), numbers);
  }
  check(allclose(c, matmul(a, b), 1e-4, 1e-4), "the simulated blocks compute the product");
  fmt::print("{} blocks of {} threads computed a·b\n", n / kTile * (n / kTile), kTile * kTile);
  fmt::print("a warp's load of b takes {} accesses, {} with x and y exchanged\n", accesses(n, false),
             accesses(n, true));
  try {
    const Tensor on_gpu = matmul(a.to(Device::cuda), b.to(Device::cuda)).to(Device::cpu);
    check(allclose(c, on_gpu, 1e-2, 1e-2), "matmul on the GPU computes the same product");
    fmt::print("matmul on the GPU computed the same\n");
  } catch (const DeviceError&) {
    fmt::print("There is no GPU here: the blocks were simulated on the CPU, and no kernel ran.\n");
  }
}
// <!-- output -->
// linnet's GPU kernels are in `cuda/`, under the names of those in `ops/cpu/`. Its matrix products are cuBLAS's.
//
// ## Exercises
//
// 1. How often is each number of $a$ loaded from memory with tiles, and how often without?
// 2. Leave out the first barrier: let each thread do both parts before the next thread begins. What happens?
// 3. Sum 256 numbers with a block: in each step, half as many threads each add a number from half the distance.
