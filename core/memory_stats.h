#pragma once

#include <cstdint>

namespace linnet {

/// Memory of one device's tensors, in bytes.
struct MemoryStats {
  int64_t live;      ///< in tensors and recordings now
  int64_t peak;      ///< the largest `live` since the start or `reset_peak`
  int64_t cached;    ///< kept for reuse, not part of `live`
  int64_t requests;  ///< allocations from the system or the driver so far; a warm loop makes none
};

}  // namespace linnet
