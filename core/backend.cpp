#include <linnet/core/backend.h>

#include <linnet/core/profile.h>

namespace linnet {

const Backend& backend(Device device) {
  if (device == Device::cuda) return cuda_backend();
  const Backend* timed = detail::timed_cpu_backend();
  return timed != nullptr ? *timed : cpu_backend();
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
