#include <linnet/cuda/device/precision.cuh>

#include <atomic>
#include <cstdlib>
#include <string>

#include <linnet/core/error.h>

namespace linnet::cuda {
namespace {

Precision from_environment() {
  const char* name = std::getenv("LINNET_CUDA_PRECISION");
  if (name == nullptr || *name == '\0') return Precision::float32;
  if (const auto named = precision_named(name)) return *named;
  throw DeviceError(std::string("LINNET_CUDA_PRECISION=") + name + " must be float32, tf32 or bfloat16");
}

std::atomic<Precision>& current() {
  static std::atomic<Precision> instance{from_environment()};
  return instance;
}

}  // namespace

Precision precision() { return current(); }

void set_precision(Precision precision) { current() = precision; }

}  // namespace linnet::cuda
