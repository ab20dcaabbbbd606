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

AttentionOptions quadratic_form(const FastmaxKernel& kernel) {
  AttentionOptions options{};
  options.kind = {false, kernel.a0, kernel.a1, kernel.a2};
  options.scale = 1;
  options.causal = kernel.causal;
  options.tokens = {kernel.keep, kernel.shared_normaliser, kernel.query_key, kernel.key_key};
  return options;
}

}  // namespace linnet
