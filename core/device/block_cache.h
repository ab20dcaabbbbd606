#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <linnet/core/device/backend.h>

namespace linnet {

/// Where a cache has its blocks from, and what it says when there are no more.
struct MemorySource {
  int64_t granule;               ///< sizes of blocks are multiples of this power of two
  void* (*take)(int64_t bytes);  ///< null when there is no room
  void (*give_back)(void* block);
  /// Throws MemoryError: how large a block was asked for, and what is live in tensors and recordings. May ask the
  /// cache for its `stats`, such as what is still kept.
  void (*refuse)(int64_t bytes, int64_t live);
};

/// Keeps the blocks of tensors that died, and hands them to the next of about their size. Threads may share it.
/// C++17, so that nvcc reads it.
class [[gnu::visibility("hidden")]] BlockCache {
 public:
  explicit BlockCache(const MemorySource& source) : source_(source) {}

  /// Throws what the source's `refuse` throws, when there is no room even after `release_cached`.
  void* allocate(int64_t bytes);
  /// Takes back what `allocate` gave, with its size.
  void deallocate(void* block, int64_t bytes);
  /// How large a block is that serves so many bytes.
  int64_t block_size(int64_t bytes) const;
  /// Counts a block of that size as kept, or as live again, which its user puts by and uses again without giving it
  /// back. Waits for no other thread.
  void count_kept(int64_t size);
  void count_live(int64_t size);
  MemoryStats stats();
  void reset_peak();
  /// Gives the blocks that are kept back to the source; in a hold none, since that could break what is recorded.
  void release_cached();

  /// Keep all other threads out while the process forks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Recorded work writes to its blocks whenever it runs, so that nothing else may be handed them.

  /// Blocks, and their sizes.
  using Hold = std::unordered_map<void*, int64_t>;
  /// From here on, what is handed out will be held.
  void begin_hold();
  /// Holds all blocks that were handed out since. They count as live until they are let go, and those of tensors that
  /// live longer until these die.
  Hold end_hold();
  void let_go(const Hold& hold);

 private:
  void add_live(int64_t size);
  void* take_cached(int64_t size);
  void* take_new(int64_t size);
  void release();

  const MemorySource source_;
  std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;
  bool holding_ = false;
  Hold handed_;                           // since begin_hold(); these may be in free_, and be handed out again
  std::unordered_map<void*, bool> held_;  // after end_hold(), and whether a tensor has it; these are not in free_
  // Counted without the mutex too.
  std::atomic<int64_t> live_{0}, peak_{0}, cached_{0};
  int64_t requests_ = 0;
};

}  // namespace linnet
