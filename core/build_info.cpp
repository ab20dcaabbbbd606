#include <linnet/core/build_info.h>

#include <string_view>

#include <fmt/format.h>

#include <linnet/core/device/backend.h>
#include <linnet/core/distributed.h>
#include <linnet/core/error.h>

namespace linnet {
namespace {

/// The first clause of an error message. The remedy after it is too long for the line.
std::string_view first_clause(std::string_view message) { return message.substr(0, message.find_first_of(";\n")); }

std::string describe_cuda() {
  try {
    return backend(Device::cuda).describe();
  } catch (const DeviceError& error) {
    return fmt::format("no CUDA: {}", first_clause(error.what()));
  }
}

}  // namespace

std::string build_info() {
  return fmt::format("{}; {}; {}", build_info(Device::cpu), describe_cuda(), describe_mpi());
}

std::string build_info(Device device) {
  return fmt::format("linnet {}; {}", LINNET_VERSION, backend(device).describe());
}

}  // namespace linnet
