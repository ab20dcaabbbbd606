#pragma once

#include <cstdint>
#include <string>

#include <linnet/core/device/backend.h>
#include <linnet/core/device/block_cache.h>
#include <linnet/core/error.h>

/// Memory of the GPU's tensors. The block of a destroyed tensor is kept for the next tensor of about that size, so
/// that after the first steps of training no step allocates from the driver. A block may be reused while kernels that
/// read it are still running, because all kernels run in one stream, one after the other.
namespace linnet::cuda {

/// A block, aligned to 256 bytes or more. Throws MemoryError with the bytes that are requested, live and free.
void* allocate(int64_t bytes);
void deallocate(void* data, int64_t bytes);
MemoryStats memory_stats();
void reset_peak();
void release_cached();

/// For an allocation outside of this cache that failed. Returns the cached blocks to the driver, and throws
/// MemoryError with the bytes live and free, and with what to change. `what` says what was tried.
[[noreturn]] void refuse_memory(const std::string& what);

/// Calls `attempt`, which allocates outside of this cache. If it throws MemoryError, calls it again: by then the
/// cached blocks have been returned to the driver.
template <class Attempt>
void with_room(const Attempt& attempt) {
  try {
    attempt();
  } catch (const MemoryError&) {
    attempt();
  }
}

/// Blocks held for a recording; see BlockCache.
void begin_hold();
BlockCache::Hold end_hold();
void let_go(const BlockCache::Hold& hold);

}  // namespace linnet::cuda
