#include <cstring>
#include <utility>

#include <cuda_runtime_api.h>

#include "grid.h"
#include "stream.h"

/// The GPU that there is, and the runtime's errors.

namespace linnet::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
constexpr int kVersion = 13000;

}  // namespace

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace linnet::emulation

using namespace linnet::emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->major = 9;
  size_t unused = 0;
  cudaMemGetInfo(&unused, &properties->totalGlobalMem);
  properties->multiProcessorCount = static_cast<int>(kMostBlocks);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "an error"; }
const char* cudaGetErrorString(cudaError_t) { return "emulated"; }
