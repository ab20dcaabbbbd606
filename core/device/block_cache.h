#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <linnet/core/device/backend.h>

namespace linnet {

/// The source of a cache's blocks.
struct MemorySource {
  int64_t granule;               ///< block sizes are multiples of this power of two
  void* (*take)(int64_t bytes);  ///< returns null when there is not enough memory
  void (*give_back)(void* block);
  /// Throws MemoryError, with the size of the block that was requested and the bytes live in tensors and recordings.
  /// May ask the cache for its `stats`, such as the bytes still kept.
  void (*refuse)(int64_t bytes, int64_t live);
  /// The cache keeps at most twice the largest number of bytes that were live, plus these. `take` may never return
  /// null, because Linux promises more memory than there is. Without this limit, tensors of ever new sizes would then
  /// fill the memory with blocks of older sizes.
  int64_t spare = int64_t{1} << 60;
};

/// Keeps the blocks of destroyed tensors for new tensors of about their size. Threads may share it. The code is
/// C++17, so that nvcc compiles it.
class [[gnu::visibility("hidden")]] BlockCache {
 public:
  explicit BlockCache(const MemorySource& source) : source_(source) {}

  /// A block of at least `bytes`. If there is not enough memory even after `release_cached`, this throws what the
  /// source's `refuse` throws.
  void* allocate(int64_t bytes);
  /// Returns a block from `allocate`, with its size.
  void deallocate(void* block, int64_t bytes);
  /// The size of the block that `allocate` returns for `bytes`.
  int64_t block_size(int64_t bytes) const;
  /// Count a block as cached that its user keeps for reuse without calling `deallocate`, and as live again when it is
  /// reused. They do not wait for other threads.
  void count_kept(int64_t size);
  void count_live(int64_t size);
  MemoryStats stats();
  void reset_peak();
  /// Returns the kept blocks to the source. During a hold it returns none, because that could break the recording.
  void release_cached();

  /// Keeps all other threads out while the process forks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Recorded work writes to its blocks whenever it runs, so the cache must not reuse them.

  /// Blocks and their sizes.
  using Hold = std::unordered_map<void*, int64_t>;
  /// Begins a hold: blocks that are allocated from now on will be held.
  void begin_hold();
  /// Holds all blocks that were allocated since begin_hold. They count as live until `let_go`. A block whose tensor
  /// lives longer counts until the tensor is destroyed.
  Hold end_hold();
  void let_go(const Hold& hold);

 private:
  /// The blocks of one size.
  struct Blocks {
    std::vector<void*> unused;  // with room for all, because destructors return blocks and must not allocate
    size_t count = 0;           // all that the source has given and not got back
  };

  void add_live(int64_t size);
  /// Keeps a block that no tensor uses any more.
  void keep(void* block, int64_t size);
  /// Returns all kept blocks to the source if they exceed the limit (see `MemorySource::spare`).
  void trim();
  void* take_cached(int64_t size);
  void* take_new(int64_t size);
  void release();

  const MemorySource source_;
  std::mutex mutex_;
  std::unordered_map<int64_t, Blocks> free_;  // by size
  bool holding_ = false;
  Hold handed_;                           // allocated since begin_hold(); some may be in free_ again
  std::unordered_map<void*, bool> held_;  // held after end_hold(); true if a tensor uses it; none is in free_
  // Also changed without the mutex.
  std::atomic<int64_t> live_{0}, peak_{0}, most_live_{0}, cached_{0};
  int64_t requests_ = 0;
};

}  // namespace linnet
