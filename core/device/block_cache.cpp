#include <linnet/core/device/block_cache.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include <linnet/core/device/poison.h>

namespace linnet {
namespace {

void raise(std::atomic<int64_t>& most, int64_t value) {
  int64_t before = most;
  while (before < value && !most.compare_exchange_weak(before, value)) continue;
}

}  // namespace

void* BlockCache::allocate(int64_t bytes) {
  const int64_t size = block_size(bytes);
  std::unique_lock lock(mutex_);
  void* block = take_cached(size);
  if (block == nullptr) block = take_new(size);
  if (block == nullptr) {
    release();
    block = take_new(size);
  }
  if (block == nullptr) {
    lock.unlock();  // `refuse` may ask for stats()
    source_.refuse(size, live_);
  }
  add_live(size);
  if (holding_) {
    try {
      handed_.emplace(block, size);
    } catch (const std::bad_alloc&) {
      keep(block, size);
      throw;
    }
  }
  detail::allow_use(block, bytes, size);
  return block;
}

void BlockCache::deallocate(void* block, int64_t bytes) {
  const int64_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  if (const auto held = held_.find(block); held != held_.end()) {
    held->second = false;
    return;
  }
  keep(block, size);
  trim();
}

void BlockCache::keep(void* block, int64_t size) {
  detail::allow_use(block, 0, size);
  free_.find(size)->second.unused.push_back(block);
  count_kept(size);
}

void BlockCache::count_kept(int64_t size) {
  cached_ += size;
  live_ -= size;
}

void BlockCache::count_live(int64_t size) {
  cached_ -= size;
  add_live(size);
}

void BlockCache::add_live(int64_t size) {
  const int64_t live = live_.fetch_add(size) + size;
  raise(peak_, live);
  raise(most_live_, live);
}

void BlockCache::trim() {
  if (cached_ > 2 * most_live_ + source_.spare) release();
}

MemoryStats BlockCache::stats() {
  const std::lock_guard lock(mutex_);
  return {.live = live_, .peak = peak_, .cached = cached_, .requests = requests_};
}

void BlockCache::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = live_.load();
}

void BlockCache::release_cached() {
  const std::lock_guard lock(mutex_);
  release();
}

void BlockCache::begin_hold() {
  const std::lock_guard lock(mutex_);
  holding_ = true;
}

BlockCache::Hold BlockCache::end_hold() {
  const std::lock_guard lock(mutex_);
  for (const auto& [block, size] : handed_) {
    detail::allow_use(block, size, size);  // recorded work may use it for tensors of several sizes
    std::vector<void*>& unused = free_[size].unused;
    const auto found = std::find(unused.begin(), unused.end(), block);
    held_[block] = found == unused.end();
    if (found == unused.end()) continue;
    unused.erase(found);
    count_live(size);
  }
  holding_ = false;
  return std::exchange(handed_, {});
}

void BlockCache::let_go(const Hold& hold) {
  const std::lock_guard lock(mutex_);
  for (const auto& [block, size] : hold) {
    const auto held = held_.find(block);
    if (!held->second) keep(block, size);
    held_.erase(held);
  }
}

/// The block size for `bytes`: a multiple of an eighth of its power of two, so that at most an eighth is wasted and
/// nearby sizes share blocks.
int64_t BlockCache::block_size(int64_t bytes) const {
  const auto request = static_cast<uint64_t>(std::max(bytes, source_.granule));
  const uint64_t granule = std::max(std::bit_floor(request) / 8, static_cast<uint64_t>(source_.granule));
  const uint64_t size = (request + granule - 1) / granule * granule;
  constexpr uint64_t kMost = INT64_MAX;  // more than any device has
  return static_cast<int64_t>(std::min(size, kMost));
}

void* BlockCache::take_cached(int64_t size) {
  const auto blocks = free_.find(size);
  if (blocks == free_.end() || blocks->second.unused.empty()) return nullptr;
  void* block = blocks->second.unused.back();
  blocks->second.unused.pop_back();
  cached_ -= size;
  return block;
}

void* BlockCache::take_new(int64_t size) {
  ++requests_;
  try {
    Blocks& blocks = free_[size];
    const size_t count = blocks.count + 1;
    if (blocks.unused.capacity() < count) blocks.unused.reserve(2 * count);
    void* block = source_.take(size);
    if (block != nullptr) blocks.count = count;
    return block;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void BlockCache::release() {
  if (holding_) return;
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks.unused) source_.give_back(block);
    cached_ -= size * static_cast<int64_t>(blocks.unused.size());
    blocks.count -= blocks.unused.size();
    blocks.unused.clear();
  }
}

}  // namespace linnet
