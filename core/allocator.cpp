#include <linnet/core/allocator.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::cpu_memory {
namespace {

constexpr int64_t kAlignment = 64;

/// The size of the block that serves a request: a multiple of an eighth of its power of two, so that at most an
/// eighth is wasted and nearby sizes share blocks.
int64_t block_size(int64_t bytes) {
  const auto request = static_cast<uint64_t>(bytes < kAlignment ? kAlignment : bytes);
  const uint64_t step = std::bit_floor(request) / 8;
  const uint64_t granule = step < kAlignment ? kAlignment : step;
  return static_cast<int64_t>((request + granule - 1) / granule * granule);
}

class Cache {
 public:
  void* allocate(int64_t bytes) {
    const int64_t size = block_size(bytes);
    const std::lock_guard lock(mutex_);
    void* data = take_cached(size);
    if (data == nullptr) data = from_system(size);
    if (data == nullptr) {
      release();
      data = from_system(size);
    }
    if (data == nullptr) {
      throw MemoryError(
          fmt::format("out of memory: asked for {} bytes with {} bytes live in tensors; use a smaller "
                      "batch or context, or free tensors first",
                      bytes, stats_.live));
    }
    stats_.live += size;
    if (stats_.live > stats_.peak) stats_.peak = stats_.live;
    return data;
  }

  void deallocate(void* data, int64_t bytes) {
    const int64_t size = block_size(bytes);
    const std::lock_guard lock(mutex_);
    free_[size].push_back(data);
    stats_.cached += size;
    stats_.live -= size;
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }

  void release_cached() {
    const std::lock_guard lock(mutex_);
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

  /// Null when the system has no room.
  void* from_system(int64_t size) {
    ++stats_.requests;
    return std::aligned_alloc(kAlignment, static_cast<size_t>(size));
  }

  void release() {
    for (auto& [size, blocks] : free_) {
      for (void* data : blocks) std::free(data);
    }
    free_.clear();
    stats_.cached = 0;
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
MemoryStats stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cached() { cache().release_cached(); }

}  // namespace linnet::cpu_memory
