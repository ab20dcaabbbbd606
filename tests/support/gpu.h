#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <linnet/core/device/backend.h>
#include <linnet/core/error.h>

#include "tests/support/op_case.h"

namespace linnet::test {

/// Whether a GPU can be used. If not, it prints that the test `what` was skipped, and why; the test then returns.
inline bool has_gpu(const std::string& what) {
  try {
    backend(Device::cuda);
    return true;
  } catch (const DeviceError& error) {
    std::printf("SKIPPED: %s: %s\n", what.c_str(), error.what());
    return false;
  }
}

inline bool gpu_answers() {
  try {
    backend(Device::cuda);
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

/// Whether no GPU can be used. If one can, it prints that the test `what` was skipped; the test then returns.
inline bool lacks_gpu(const std::string& what) {
  if (gpu_answers()) std::printf("SKIPPED: %s: there is a GPU\n", what.c_str());
  return !gpu_answers();
}

/// Whether LINNET_CUDA_CHECK makes the host wait for each kernel. If so, no error is reported late, and no graph is
/// recorded.
inline bool waits_for_kernels() {
  const char* checking = std::getenv("LINNET_CUDA_CHECK");
  return checking != nullptr && std::string(checking) != "" && std::string(checking) != "0";
}

/// While it exists, op cases are tested on the GPU.
class CasesOnGpu {
 public:
  CasesOnGpu() { case_device() = Device::cuda; }
  ~CasesOnGpu() { case_device() = Device::cpu; }
  CasesOnGpu(const CasesOnGpu&) = delete;
  CasesOnGpu& operator=(const CasesOnGpu&) = delete;
};

}  // namespace linnet::test
