#pragma once

#include <cstdint>

#include <linnet/core/dtype.h>
#include <linnet/core/where.h>

namespace linnet {

/// Memory of one device's tensors, in bytes.
struct MemoryStats {
  int64_t live;      ///< in tensors and recordings now
  int64_t peak;      ///< the largest `live` since the start or the last `reset_peak_memory`
  int64_t cached;    ///< kept for reuse, not part of `live`
  int64_t requests;  ///< allocations from the system or the driver so far; a loop makes none after its first rounds
};

/// The memory that tensors on a device take.
MemoryStats memory_stats(Device device = Device::cpu, Where where = {});
/// Sets the peak to the memory that is live now.
void reset_peak_memory(Device device = Device::cpu, Where where = {});
/// Returns cached memory to the system.
void release_cached_memory(Device device = Device::cpu, Where where = {});

}  // namespace linnet
