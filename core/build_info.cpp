#include <linnet/core/build_info.h>

#include <fmt/format.h>

#include <linnet/core/backend.h>
#include <linnet/core/error.h>

namespace linnet {
namespace {

std::string describe_cuda() {
  try {
    return cuda_backend().describe();
  } catch (const DeviceError&) {
    return "no CUDA";
  }
}

}  // namespace

std::string build_info() {
  return fmt::format("linnet {}; {}; {}", LINNET_VERSION, cpu_backend().describe(), describe_cuda());
}

}  // namespace linnet
