#pragma once

#include <cstdint>

namespace linnet::cuda {

/// Copies host memory to the GPU, before all later work runs. `host` may be reused at once. A copy goes through four
/// buffers of 4 MiB in turn. The host waits for a buffer whose last copy has not been sent yet. A piece above 64 KiB
/// is sent while kernels run. A shorter one is sent in the kernels' stream, after them, so that the fifth short copy
/// behind a kernel waits for this kernel.
void from_host(void* device, const void* host, int64_t bytes);

/// Copies GPU memory to the host, after all work so far. Throws DeviceError when any of that failed.
void to_host(void* host, const void* device, int64_t bytes);

}  // namespace linnet::cuda
