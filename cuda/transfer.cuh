#pragma once

#include <cstdint>

namespace linnet::cuda {

/// Copies host memory to the GPU, for all work from now on. `host` may be reused at once; for a copy of up to a few
/// megabytes the host does not wait for kernels under way, nor does most of the copy.
void from_host(void* device, const void* host, int64_t bytes);

/// Copies GPU memory to the host, after all work so far. Throws DeviceError when any of that failed.
void to_host(void* host, const void* device, int64_t bytes);

}  // namespace linnet::cuda
