#pragma once

#include <cstdint>
#include <string>

#include <linnet/core/device/backend.h>
#include <linnet/core/device/block_cache.h>
#include <linnet/core/error.h>

/// Memory of the GPU's tensors: blocks are kept when a tensor dies and handed to the next of about that size, so
/// that a training step, once warm, asks the driver for nothing. A block may be handed on while kernels that use
/// it are still under way: they and the next owner's are in one stream, one after the other.
namespace linnet::cuda {

/// 256-byte aligned or better. Throws MemoryError saying what was asked, what is live and what is free.
void* allocate(int64_t bytes);
void deallocate(void* data, int64_t bytes);
MemoryStats memory_stats();
void reset_peak();
void release_cached();

/// For what found no room elsewhere, such as at the driver's: gives it the blocks that are kept for tensors, and
/// throws MemoryError, which says what is live, what is free, and what to change. `what` says what was tried.
[[noreturn]] void refuse_memory(const std::string& what);

/// Calls `attempt`, which takes memory of the GPU by another way, and once more when it threw MemoryError: then there
/// is the room of blocks that were kept.
template <class Attempt>
void with_room(const Attempt& attempt) {
  try {
    attempt();
  } catch (const MemoryError&) {
    attempt();
  }
}

/// What a recording works in; see BlockCache.
void begin_hold();
BlockCache::Hold end_hold();
void let_go(const BlockCache::Hold& hold);

}  // namespace linnet::cuda
