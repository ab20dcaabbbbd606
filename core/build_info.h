#pragma once

#include <string>

#include <linnet/core/dtype.h>

namespace linnet {

/// One line: linnet's version, the CPU's instruction set, the BLAS (version, kernels, threading) and CUDA,
/// or why there is none.
std::string build_info();

/// The same of one device alone, so that no other has to be opened for it. Throws DeviceError where it does not
/// answer.
std::string build_info(Device device);

}  // namespace linnet
