#pragma once

#include <cstdio>
#include <string>

#include <linnet/core/backend.h>
#include <linnet/core/error.h>

#include "tests/support/op_case.h"

namespace linnet::test {

/// Whether a GPU answers. Without one the test has nothing to do: a line says what was not tried, and it returns.
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

/// While one lives, op cases are tried on the GPU.
class CasesOnGpu {
 public:
  CasesOnGpu() { case_device() = Device::cuda; }
  ~CasesOnGpu() { case_device() = Device::cpu; }
  CasesOnGpu(const CasesOnGpu&) = delete;
  CasesOnGpu& operator=(const CasesOnGpu&) = delete;
};

}  // namespace linnet::test
