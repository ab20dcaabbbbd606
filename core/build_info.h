#pragma once

#include <string>

#include <linnet/core/dtype.h>

namespace linnet {

/// One line with linnet's version, the CPU's instruction set, the BLAS (version, kernels, threading), and CUDA and
/// MPI or the reasons why there are none.
std::string build_info();

/// The line for one device. No other device is opened for it.
///
/// Throws: DeviceError where the device does not answer.
std::string build_info(Device device);

}  // namespace linnet
