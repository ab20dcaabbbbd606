#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include <cuda_runtime_api.h>

#include "control.h"
#include "failure.h"
#include "stream.h"

/// Memory of the GPU and pinned memory. Both are memory of the host; the blocks of the GPU are recorded.

namespace linnet::emulation {
namespace {

constexpr size_t kMemoryBytes = size_t{12} << 30;

struct Memory {
  std::mutex mutex;
  std::map<uintptr_t, size_t> blocks;  ///< by address
  size_t taken = 0;
};

/// Never destroyed, since tensors of static lifetime may outlive it.
Memory& memory() {
  static Memory* const instance = new Memory;
  return *instance;
}

void* host_memory(size_t bytes) {
  constexpr size_t kAlignment = 256;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

/// Fills memory that is new or freed with bytes that are NaN, or an index far out of range, for whoever reads it.
/// Leaves out blocks so large that only a test of memory allocates them.
void poison(void* block, size_t bytes) {
  constexpr size_t kMost = size_t{64} << 20;
  std::memset(block, 0xff, std::min(bytes, kMost));
}

/// Whether the whole range lies in one block of GPU memory.
bool is_of_gpu(const void* data, size_t bytes) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  const auto address = reinterpret_cast<uintptr_t>(data);
  const auto next = memory().blocks.upper_bound(address);
  if (next == memory().blocks.begin()) return false;
  const auto block = std::prev(next);
  return address + bytes <= block->first + block->second;
}

}  // namespace
}  // namespace linnet::emulation

using namespace linnet::emulation;

cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const cudaError_t error = error_told()) return error;
  const std::lock_guard<std::mutex> lock(memory().mutex);
  *data = bytes <= kMemoryBytes - memory().taken ? host_memory(bytes) : nullptr;
  if (*data == nullptr) return report(cudaErrorMemoryAllocation);
  poison(*data, bytes);
  memory().blocks[reinterpret_cast<uintptr_t>(*data)] = bytes;
  memory().taken += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  finish_all();
  const std::lock_guard<std::mutex> lock(memory().mutex);
  const auto block = memory().blocks.find(reinterpret_cast<uintptr_t>(data));
  if (block == memory().blocks.end()) fail("%p is freed, and was not taken", data);
  poison(data, block->second);
  memory().taken -= block->second;
  memory().blocks.erase(block);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  if (const cudaError_t error = error_told()) return error;
  *data = host_memory(bytes);
  return report(*data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  *unused = kMemoryBytes - memory().taken;
  *total = kMemoryBytes;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (is_of_gpu(to, bytes) != (kind != cudaMemcpyDeviceToHost) ||
      is_of_gpu(from, bytes) != (kind != cudaMemcpyHostToDevice)) {
    fail("a copy of %zu bytes from %p to %p, which do not lie where its kind %d says", bytes, from, to, kind);
  }
  submit(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
