#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "control.h"
#include "grid.h"
#include "stream.h"

/// The emulated GPU, and the runtime's errors.

namespace linnet::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Failures {
  std::mutex mutex;
  std::map<std::string, std::deque<int>> of;  ///< by function
};
Failures& failures() {
  static Failures instance;
  return instance;
}

}  // namespace

Properties& properties() {
  static Properties instance;
  return instance;
}

void fail_next(const std::string& function, int status) {
  const std::lock_guard<std::mutex> lock(failures().mutex);
  failures().of[function].push_back(status);
}

int status_told(const char* function) {
  const std::lock_guard<std::mutex> lock(failures().mutex);
  const auto told = failures().of.find(function);
  if (told == failures().of.end()) return 0;
  const int status = told->second.front();
  told->second.pop_front();
  if (told->second.empty()) failures().of.erase(told);
  return status;
}

cudaError_t error_told(const char* function) { return report(static_cast<cudaError_t>(status_told(function))); }

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace linnet::emulation

using namespace linnet::emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  if (const cudaError_t error = error_told()) return error;
  *count = properties().devices;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = properties().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* gpu, int) {
  *gpu = {};
  std::strcpy(gpu->name, "emulated GPU");
  gpu->major = properties().major;
  gpu->minor = properties().minor;
  size_t unused = 0;
  cudaMemGetInfo(&unused, &gpu->totalGlobalMem);
  gpu->multiProcessorCount = static_cast<int>(kMostBlocks);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  if (const cudaError_t error = error_told()) return error;
  *attributes = {};
  attributes->ptxVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "an error"; }
const char* cudaGetErrorString(cudaError_t) { return "emulated"; }
