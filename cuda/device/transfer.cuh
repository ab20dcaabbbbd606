#pragma once

#include <cstdint>

namespace linnet::cuda {

/// Copies host memory to the GPU, before all later work runs. `host` may be reused at once. The first 16 MiB since
/// the last kernel launch are copied without waiting for kernels, and the host does not wait either.
void from_host(void* device, const void* host, int64_t bytes);

/// Copies GPU memory to the host, after all work so far. Throws DeviceError when any of that failed.
void to_host(void* host, const void* device, int64_t bytes);

}  // namespace linnet::cuda
