#include <linnet/core/device/backend.h>
#include <linnet/core/distributed/transport.h>
#include <linnet/core/error.h>

namespace linnet {

/// Replaces the CUDA backend in a build without it.
const Backend& cuda_backend() {
  throw DeviceError(
      "this linnet was built without CUDA; install a CUDA Toolkit 12 or 13 and configure with -DLINNET_CUDA=ON, or "
      "use --device cpu (Device::cpu)");
}

detail::GpuMessages detail::gpu_messages(ProcessGroup& /*group*/) {
  return {nullptr, "a build without CUDA sends none"};
}

}  // namespace linnet
