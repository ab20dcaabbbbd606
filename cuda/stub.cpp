#include <linnet/core/backend.h>
#include <linnet/core/error.h>

namespace linnet {

/// Stands in for the CUDA backend in a build without it.
const Backend& cuda_backend() {
  throw DeviceError("this linnet was built without CUDA; use --device cpu (Device::cpu)");
}

}  // namespace linnet
