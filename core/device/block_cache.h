#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <linnet/core/device/backend.h>

namespace linnet {

/// The source of a cache's blocks.
struct MemorySource {
  int64_t granule;               ///< block sizes are multiples of this power of two
  void* (*take)(int64_t bytes);  ///< returns null when memory does not suffice
  void (*give_back)(void* block);
  /// Throws MemoryError, with the size of the block that was requested and the bytes live in tensors and recordings.
  /// May ask the cache for its `stats`, such as the bytes still kept.
  void (*refuse)(int64_t bytes, int64_t live);
  /// The cache keeps at most twice the bytes that were ever live, and these. `take` may never return null, since
  /// Linux gives more memory than there is; then tensors of ever new sizes would fill the memory with blocks of older
  /// ones.
  int64_t spare = int64_t{1} << 60;
};

/// Keeps the blocks of destroyed tensors for new tensors of about their size. Threads may share it. C++17, so that
/// nvcc reads it.
class [[gnu::visibility("hidden")]] BlockCache {
 public:
  explicit BlockCache(const MemorySource& source) : source_(source) {}

  /// A block of at least `bytes`. Throws what the source's `refuse` throws, when memory does not suffice even after
  /// `release_cached`.
  void* allocate(int64_t bytes);
  /// Returns a block from `allocate`, with its size.
  void deallocate(void* block, int64_t bytes);
  /// The size of the block that `allocate` returns for so many bytes.
  int64_t block_size(int64_t bytes) const;
  /// Counts a block that its user keeps for reuse, without `deallocate`, as cached, or as live when it is used again.
  /// Waits for no other thread.
  void count_kept(int64_t size);
  void count_live(int64_t size);
  MemoryStats stats();
  void reset_peak();
  /// Returns the kept blocks to the source. During a hold it returns none, because that could break the recording.
  void release_cached();

  /// Keeps all other threads out while the process forks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // Recorded work writes to its blocks whenever it runs, so these must not be allocated again.

  /// Blocks and their sizes.
  using Hold = std::unordered_map<void*, int64_t>;
  /// Begins a hold: blocks that are allocated from now on will be held.
  void begin_hold();
  /// Holds all blocks that were allocated since begin_hold. They count as live until `let_go`, and blocks of tensors
  /// that live longer until these are destroyed.
  Hold end_hold();
  void let_go(const Hold& hold);

 private:
  void add_live(int64_t size);
  /// Gives all back where more is kept than the source wants.
  void trim();
  void* take_cached(int64_t size);
  void* take_new(int64_t size);
  void release();

  const MemorySource source_;
  std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;
  bool holding_ = false;
  Hold handed_;                           // allocated since begin_hold(); some may be in free_ again
  std::unordered_map<void*, bool> held_;  // held after end_hold(), with whether a tensor has it; none is in free_
  // Changed without the mutex too.
  std::atomic<int64_t> live_{0}, peak_{0}, most_live_{0}, cached_{0};
  int64_t requests_ = 0;
};

}  // namespace linnet
