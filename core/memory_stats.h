#pragma once

#include <cstdint>

namespace linnet {

/// Memory of one device's tensors, in bytes.
struct MemoryStats {
  int64_t live;      ///< in tensors and in recorded work now
  int64_t peak;      ///< the most that `live` has been since the start or `reset_peak`
  int64_t cached;    ///< kept for reuse, beside `live`
  int64_t requests;  ///< calls for more to the system or the driver so far: none in a loop that is warm
};

}  // namespace linnet
