#include <linnet/core/backend.h>

#include <linnet/core/profile.h>

namespace linnet {

const Backend& backend(Device device) {
  if (device == Device::cuda) return cuda_backend();
  const Backend* timed = detail::timed_cpu_backend();
  return timed != nullptr ? *timed : cpu_backend();
}

}  // namespace linnet
