#include <linnet/core/device/allocator.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>

#include <fmt/format.h>

#include <linnet/core/device/block_cache.h>
#include <linnet/core/device/poison.h>
#include <linnet/core/error.h>

namespace linnet::cpu_memory {
namespace {

constexpr int64_t kAlignment = 64;

/// Blocks of at least this size ask for huge pages. New memory then costs one page fault instead of 512. And the rows
/// of a large matrix, which are on different pages, need fewer look-ups in the page table.
constexpr int64_t kHugePage = int64_t{2} << 20;

/// The number of bytes that may be kept beyond twice the largest number of live bytes.
constexpr int64_t kSpare = int64_t{256} << 20;

void* take(int64_t bytes) {
  const bool huge = bytes >= kHugePage;
  void* block = nullptr;
  if (posix_memalign(&block, static_cast<size_t>(huge ? kHugePage : kAlignment), static_cast<size_t>(bytes)) != 0) {
    return nullptr;
  }
  if (huge) madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // may fail: then pages are small
  return block;
}

void refuse(int64_t bytes, int64_t live) {
  throw MemoryError(
      fmt::format("out of memory: asked for {} bytes with {} bytes live in tensors and recordings and {} kept for "
                  "reuse; use a smaller batch or context, or free tensors first",
                  bytes, live, stats().cached));
}

/// The cache. It is never destroyed, because static tensors may outlive our static objects.
BlockCache& cache() {
  static BlockCache* const instance = [] {
    handle_forks();
    return new BlockCache({kAlignment, take, std::free, refuse, kSpare});
  }();
  return *instance;
}

/// The scratch blocks that a thread keeps for its next tasks.
class ThreadBlocks {
 public:
  ThreadBlocks();
  ~ThreadBlocks();
  ThreadBlocks(const ThreadBlocks&) = delete;
  ThreadBlocks& operator=(const ThreadBlocks&) = delete;

  /// Returns the block of this size that was kept last, or null.
  void* take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto block =
        std::find_if(blocks_.rbegin(), blocks_.rend(), [=](const Block& b) { return b.bytes == bytes; });
    if (block == blocks_.rend()) return nullptr;
    void* const data = block->data;
    blocks_.erase(std::next(block).base());
    bytes_ -= bytes;
    cache().count_live(bytes);
    return data;
  }

  /// Keeps a block. Above kMost bytes the oldest blocks go back to the cache.
  void keep(void* data, int64_t bytes) {
    if (bytes > kMost) return cache().deallocate(data, bytes);
    const std::lock_guard lock(mutex_);
    try {
      blocks_.push_back({data, bytes});
    } catch (const std::bad_alloc&) {  // in a destructor
      return cache().deallocate(data, bytes);
    }
    bytes_ += bytes;
    cache().count_kept(bytes);
    while (bytes_ > kMost) give_back_oldest();
  }

  void release() {
    const std::lock_guard lock(mutex_);
    while (!blocks_.empty()) give_back_oldest();
  }

  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr int64_t kMost = int64_t{2} << 20;  // about the size of a core's cache

  struct Block {
    void* data;
    int64_t bytes;
  };

  void give_back_oldest() {
    const Block oldest = blocks_.front();
    blocks_.erase(blocks_.begin());
    bytes_ -= oldest.bytes;
    cache().count_live(oldest.bytes);
    cache().deallocate(oldest.data, oldest.bytes);
  }

  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;  // because any thread may call `release_cached`
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
};

/// The ThreadBlocks of all threads.
class Registry {
 public:
  void add(ThreadBlocks* blocks) {
    const std::lock_guard lock(mutex_);
    all_.push_back(blocks);
  }
  void remove(ThreadBlocks* blocks) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, blocks);
  }
  template <class F>
  void for_each(F f) {
    const std::lock_guard lock(mutex_);
    for (ThreadBlocks* blocks : all_) f(*blocks);
  }

  void lock() {
    mutex_.lock();
    for (ThreadBlocks* blocks : all_) blocks->lock();
  }
  void unlock() {
    for (ThreadBlocks* blocks : all_) blocks->unlock();
    mutex_.unlock();
  }
  /// Unlocks in a forked child, and forgets the threads that it does not have: their ThreadBlocks are in the memory
  /// of their stacks, which the child will unmap or give to new threads.
  void unlock_in_child() {
    for (ThreadBlocks* blocks : all_) {
      blocks->unlock();
      if (!blocks->is_of_this_thread()) blocks->release();
    }
    std::erase_if(all_, [](const ThreadBlocks* blocks) { return !blocks->is_of_this_thread(); });
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::vector<ThreadBlocks*> all_;
};

/// The registry. It is never destroyed, because the last thread to end needs it.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Called before and after a fork. All other code takes the locks in the same order.
void lock() {
  registry().lock();
  cache().lock();
}
void unlock() {
  cache().unlock();
  registry().unlock();
}
void unlock_in_child() {
  cache().unlock();
  registry().unlock_in_child();
}

/// Whether this thread's blocks were freed because the thread ends. Later destructors may still run kernels.
thread_local bool ended = false;

ThreadBlocks::ThreadBlocks() { registry().add(this); }
ThreadBlocks::~ThreadBlocks() {
  registry().remove(this);
  release();
  ended = true;
}

ThreadBlocks& own_blocks() {
  thread_local ThreadBlocks blocks;
  return blocks;
}

}  // namespace

void* allocate(int64_t bytes) { return cache().allocate(bytes); }
void deallocate(void* data, int64_t bytes) { cache().deallocate(data, bytes); }

void* allocate_scratch(int64_t bytes) {
  const int64_t size = cache().block_size(bytes);
  void* const kept = ended ? nullptr : own_blocks().take(size);
  if (kept == nullptr) return cache().allocate(bytes);
  detail::allow_use(kept, bytes, size);
  return kept;
}
void deallocate_scratch(void* data, int64_t bytes) {
  if (ended) return cache().deallocate(data, bytes);
  const int64_t size = cache().block_size(bytes);
  detail::allow_use(data, 0, size);
  own_blocks().keep(data, size);
}

MemoryStats stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cached() {
  registry().for_each([](ThreadBlocks& blocks) { blocks.release(); });
  cache().release_cached();
}

void handle_forks() { [[maybe_unused]] static const int once = pthread_atfork(lock, unlock, unlock_in_child); }

}  // namespace linnet::cpu_memory
