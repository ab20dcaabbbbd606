#include <linnet/cuda/device/allocator.cuh>

#include <string>

#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/recording.cuh>

namespace linnet::cuda {
namespace {

void* take(int64_t bytes) {
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which a later call would report
    return nullptr;
  }
  check(status, "taking memory of the GPU");
  return block;
}

/// cudaFree waits for the kernels that still use a block. If it fails, nothing can be done, and the error must not be
/// blamed on a later kernel.
void give_back(void* block) {
  if (cudaFree(block) != cudaSuccess) cudaGetLastError();
}

void refuse(int64_t bytes, int64_t) { refuse_memory("asking for " + std::to_string(bytes) + " bytes of GPU memory"); }

/// Never destroyed, because static tensors may outlive our static objects.
BlockCache& cache() {
  static BlockCache* const instance = new BlockCache({512, take, give_back, refuse});
  return *instance;
}

}  // namespace

void* allocate(int64_t bytes) {
  const auto lock = outside_of_recordings();
  return cache().allocate(bytes);
}

void deallocate(void* data, int64_t bytes) { cache().deallocate(data, bytes); }
MemoryStats memory_stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cached() {
  const auto lock = outside_of_recordings();
  cache().release_cached();
}

/// Does not wait for recordings of other threads, because the caller may hold their lock. The cache returns nothing
/// to the driver during a recording.
void refuse_memory(const std::string& what) {
  cache().release_cached();
  const MemoryStats stats = cache().stats();
  size_t unused = 0, total = 0;
  if (cudaMemGetInfo(&unused, &total) != cudaSuccess) cudaGetLastError();
  throw MemoryError("out of memory in " + what + ": " + std::to_string(stats.live) +
                    " bytes are live in tensors and recordings, " + std::to_string(stats.cached) +
                    " kept for reuse, and " + std::to_string(unused) + " of the GPU's " + std::to_string(total) +
                    " free; use a smaller batch or context, or free tensors first");
}

void begin_hold() { cache().begin_hold(); }
BlockCache::Hold end_hold() { return cache().end_hold(); }
void let_go(const BlockCache::Hold& hold) { cache().let_go(hold); }

}  // namespace linnet::cuda
