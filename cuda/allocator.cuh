#pragma once

#include <cstdint>

#include <linnet/core/backend.h>
#include <linnet/core/block_cache.h>

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

/// What a recording works in; see BlockCache.
void begin_hold();
BlockCache::Hold end_hold();
void let_go(const BlockCache::Hold& hold);

}  // namespace linnet::cuda
