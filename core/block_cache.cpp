#include <linnet/core/block_cache.h>

#include <algorithm>
#include <bit>

namespace linnet {

void* BlockCache::allocate(int64_t bytes) {
  const int64_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  void* block = take_cached(size);
  if (block == nullptr) block = take_new(size);
  if (block == nullptr) {
    release();
    block = take_new(size);
  }
  if (block == nullptr) source_.refuse(bytes, stats_.live);
  stats_.live += size;
  stats_.peak = std::max(stats_.peak, stats_.live);
  return block;
}

void BlockCache::deallocate(void* block, int64_t bytes) {
  const int64_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  free_[size].push_back(block);
  stats_.cached += size;
  stats_.live -= size;
}

MemoryStats BlockCache::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void BlockCache::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.live;
}

void BlockCache::release_cached() {
  const std::lock_guard lock(mutex_);
  release();
}

/// A multiple of an eighth of its power of two, so that at most an eighth is wasted and nearby sizes share blocks.
int64_t BlockCache::block_size(int64_t bytes) const {
  const auto request = static_cast<uint64_t>(std::max(bytes, source_.granule));
  const uint64_t granule = std::max(std::bit_floor(request) / 8, static_cast<uint64_t>(source_.granule));
  return static_cast<int64_t>((request + granule - 1) / granule * granule);
}

void* BlockCache::take_cached(int64_t size) {
  const auto blocks = free_.find(size);
  if (blocks == free_.end() || blocks->second.empty()) return nullptr;
  void* block = blocks->second.back();
  blocks->second.pop_back();
  stats_.cached -= size;
  return block;
}

void* BlockCache::take_new(int64_t size) {
  ++stats_.requests;
  return source_.take(size);
}

void BlockCache::release() {
  for (const auto& [size, blocks] : free_) {
    for (void* block : blocks) source_.give_back(block);
  }
  free_.clear();
  stats_.cached = 0;
}

}  // namespace linnet
