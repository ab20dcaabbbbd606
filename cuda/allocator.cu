#include <linnet/cuda/allocator.cuh>

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/cuda/device.cuh>

namespace linnet::cuda {
namespace {

constexpr uint64_t kGranule = 512;

/// The size of the block that serves a request: a multiple of an eighth of its power of two, so that at most an
/// eighth is wasted and nearby sizes share blocks.
int64_t block_size(int64_t bytes) {
  const auto request = bytes < static_cast<int64_t>(kGranule) ? kGranule : static_cast<uint64_t>(bytes);
  uint64_t granule = kGranule;
  while (granule * 16 <= request) granule *= 2;
  return static_cast<int64_t>((request + granule - 1) / granule * granule);
}

class Cache {
 public:
  void* allocate(int64_t bytes) {
    const int64_t size = block_size(bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    void* data = take_cached(size);
    if (data == nullptr) data = from_driver(size);
    if (data == nullptr) {
      release();
      data = from_driver(size);
    }
    if (data == nullptr) refuse(bytes);
    stats_.live += size;
    if (stats_.live > stats_.peak) stats_.peak = stats_.live;
    return data;
  }

  void deallocate(void* data, int64_t bytes) {
    const int64_t size = block_size(bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[size].push_back(data);
    stats_.cached += size;
    stats_.live -= size;
  }

  MemoryStats stats() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = stats_.live;
  }

  void release_cached() {
    const std::lock_guard<std::mutex> lock(mutex_);
    release();
  }

 private:
  void* take_cached(int64_t size) {
    const auto blocks = free_.find(size);
    if (blocks == free_.end() || blocks->second.empty()) return nullptr;
    void* data = blocks->second.back();
    blocks->second.pop_back();
    stats_.cached -= size;
    return data;
  }

  /// Null when the GPU has no room.
  void* from_driver(int64_t size) {
    ++stats_.requests;
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(size));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // so that it is not found again later
      return nullptr;
    }
    check(status, "taking memory of the GPU");
    return data;
  }

  /// cudaFree waits for the kernels that still use a block.
  void release() {
    for (auto& [size, blocks] : free_) {
      for (void* data : blocks) {
        cudaFree(data);
        stats_.cached -= size;
      }
      blocks.clear();
    }
  }

  [[noreturn]] void refuse(int64_t bytes) const {
    size_t unused = 0, total = 0;
    cudaMemGetInfo(&unused, &total);
    throw MemoryError("out of GPU memory: asked for " + std::to_string(bytes) + " bytes with " +
                      std::to_string(stats_.live) + " bytes live in tensors and " + std::to_string(unused) +
                      " of the GPU's " + std::to_string(total) +
                      " bytes free; use a smaller batch or context, or free tensors first");
  }

  std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;
  MemoryStats stats_{};
};

/// Never destroyed: tensors of static lifetime may outlive any static of ours.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

void* allocate(int64_t bytes) { return cache().allocate(bytes); }
void deallocate(void* data, int64_t bytes) { cache().deallocate(data, bytes); }
MemoryStats memory_stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cached() { cache().release_cached(); }

}  // namespace linnet::cuda
