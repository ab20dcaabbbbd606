#include <linnet/core/build_info.h>

#include <fmt/format.h>

#include <linnet/core/backend.h>
#include <linnet/core/error.h>

namespace linnet {
namespace {

std::string describe_cuda() {
  try {
    return backend(Device::cuda).describe();
  } catch (const DeviceError&) {
    return "no CUDA";
  }
}

}  // namespace

std::string build_info() { return fmt::format("{}; {}", build_info(Device::cpu), describe_cuda()); }

std::string build_info(Device device) {
  return fmt::format("linnet {}; {}", LINNET_VERSION, backend(device).describe());
}

}  // namespace linnet
