#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>

/// Memory of the CPU's tensors: blocks are kept when a tensor dies and handed to the next of about that size, so that
/// a training step, once warm, asks the system for nothing.
namespace linnet::cpu_memory {

/// 64-byte aligned. Throws MemoryError saying what was asked and what is live.
void* allocate(int64_t bytes);
/// Takes back what `allocate` gave, with its size.
void deallocate(void* data, int64_t bytes);

/// The same for working memory of a kernel, which its thread gives back: the thread keeps the block for its next
/// task, so that it lies near its core and no thread waits for another. Up to 2 MiB a thread.
void* allocate_scratch(int64_t bytes);
void deallocate_scratch(void* data, int64_t bytes);

/// Bytes live, and the most that were since `reset_peak`.
MemoryStats stats();
void reset_peak();
/// Gives the blocks that are kept back to the system.
void release_cached();

/// From here on a fork() waits until no other thread is in the middle of an allocation, so that the child can
/// allocate. The first allocation calls this. Those who hold a lock of their own while they allocate call it before
/// their own pthread_atfork(), since the handlers before a fork run from the last to the first.
void handle_forks();

}  // namespace linnet::cpu_memory
