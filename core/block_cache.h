#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <linnet/core/backend.h>

namespace linnet {

/// Where a cache has its blocks from, and what it says when there are no more.
struct MemorySource {
  int64_t granule;               ///< sizes of blocks are multiples of this power of two
  void* (*take)(int64_t bytes);  ///< null when there is no room
  void (*give_back)(void* block);
  void (*refuse)(int64_t bytes, int64_t live);  ///< throws MemoryError: what was asked, what is live in tensors
};

/// Keeps the blocks of tensors that died, and hands them to the next of about their size. Threads may share it.
/// C++17, so that nvcc reads it.
class [[gnu::visibility("hidden")]] BlockCache {
 public:
  explicit BlockCache(const MemorySource& source) : source_(source) {}

  /// Throws what the source's `refuse` throws, when there is no room even after all kept blocks are given back.
  void* allocate(int64_t bytes);
  /// Takes back what `allocate` gave, with its size.
  void deallocate(void* block, int64_t bytes);
  MemoryStats stats();
  void reset_peak();
  /// Gives the blocks that are kept back to the source.
  void release_cached();

 private:
  int64_t block_size(int64_t bytes) const;
  void* take_cached(int64_t size);
  void* take_new(int64_t size);
  void release();

  const MemorySource source_;
  std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;
  MemoryStats stats_{};
};

}  // namespace linnet
