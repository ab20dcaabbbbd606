#pragma once

#include <cstdint>

#include <linnet/core/backend.h>

/// Memory of the CPU's tensors: blocks are kept when a tensor dies and handed to the next of about that size, so that
/// a training step, once warm, asks the system for nothing.
namespace linnet::cpu_memory {

/// 64-byte aligned. Throws MemoryError saying what was asked and what is live.
void* allocate(int64_t bytes);
void deallocate(void* data, int64_t bytes);
MemoryStats stats();
void reset_peak();
void release_cached();

}  // namespace linnet::cpu_memory
