#include <linnet/core/backend.h>

#include <linnet/core/profile.h>

namespace linnet {

const Backend& detail::untimed_backend(Device device) {
  return device == Device::cuda ? cuda_backend() : cpu_backend();
}

const Backend& backend(Device device) {
  const Backend* timed = detail::timed_backend(device);
  return timed != nullptr ? *timed : detail::untimed_backend(device);
}

}  // namespace linnet
