#include <linnet/core/device/backend.h>

#include <linnet/core/device/profile.h>

namespace linnet {

const Backend& detail::untimed_backend(Device device) {
  return device == Device::cuda ? cuda_backend() : cpu_backend();
}

const Backend& backend(Device device) {
  const Backend* timed = detail::timed_backend(device);
  return timed != nullptr ? *timed : detail::untimed_backend(device);
}

}  // namespace linnet
