#pragma once

#include <cstdint>

namespace linnet::cuda {

/// Copies host memory to the GPU, for all work from now on. `host` may be reused at once. Of what was copied since
/// kernels were launched, the first 16 MiB cross to the GPU without waiting for them, and so does the host.
void from_host(void* device, const void* host, int64_t bytes);

/// Copies GPU memory to the host, after all work so far. Throws DeviceError when any of that failed.
void to_host(void* host, const void* device, int64_t bytes);

}  // namespace linnet::cuda
