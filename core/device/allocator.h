#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>

/// Memory of the CPU's tensors. The block of a destroyed tensor is kept for the next tensor of about that size, so
/// that a training step allocates nothing from the system after the first steps.
namespace linnet::cpu_memory {

/// A block of memory, 64-byte aligned.
///
/// Throws: MemoryError, with the bytes requested and the bytes live.
void* allocate(int64_t bytes);
/// Returns a block from `allocate`, with its size.
void deallocate(void* data, int64_t bytes);

/// Scratch memory of a kernel; the thread that allocated it must return it. The thread keeps up to 2 MiB of blocks
/// for its next tasks, so that a block stays in its core's cache and no thread waits for another.
void* allocate_scratch(int64_t bytes);
void deallocate_scratch(void* data, int64_t bytes);

/// Live bytes and their peak since `reset_peak`.
MemoryStats stats();
void reset_peak();
/// Returns the kept blocks to the system.
void release_cached();

/// Makes every later fork() wait until no other thread is inside an allocation, so that the child can allocate. The
/// first allocation calls this. Code that holds a lock while it allocates calls this before its own pthread_atfork(),
/// because the handlers before a fork run from the last to the first. The child takes over the scratch blocks that
/// the parent's other threads keep.
void handle_forks();

}  // namespace linnet::cpu_memory
