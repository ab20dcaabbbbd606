#include <linnet/core/backend.h>

namespace linnet {

const Backend& backend(Device device) { return device == Device::cpu ? cpu_backend() : cuda_backend(); }

}  // namespace linnet
