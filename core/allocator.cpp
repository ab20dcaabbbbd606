#include <linnet/core/allocator.h>

#include <cstdlib>

#include <fmt/format.h>

#include <linnet/core/block_cache.h>
#include <linnet/core/error.h>

namespace linnet::cpu_memory {
namespace {

constexpr int64_t kAlignment = 64;

void* take(int64_t bytes) { return std::aligned_alloc(kAlignment, static_cast<size_t>(bytes)); }

void refuse(int64_t bytes, int64_t live) {
  throw MemoryError(
      fmt::format("out of memory: asked for {} bytes with {} bytes live in tensors; use a smaller "
                  "batch or context, or free tensors first",
                  bytes, live));
}

/// Never destroyed: tensors of static lifetime may outlive any static of ours.
BlockCache& cache() {
  static BlockCache* const instance = new BlockCache({kAlignment, take, std::free, refuse});
  return *instance;
}

}  // namespace

void* allocate(int64_t bytes) { return cache().allocate(bytes); }
void deallocate(void* data, int64_t bytes) { cache().deallocate(data, bytes); }
MemoryStats stats() { return cache().stats(); }
void reset_peak() { cache().reset_peak(); }
void release_cached() { cache().release_cached(); }

}  // namespace linnet::cpu_memory
