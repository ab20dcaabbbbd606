#pragma once

#include <string>

#include <linnet/core/dtype.h>

namespace linnet {

/// One line with linnet's version, the CPU's instruction set, the BLAS (version, kernels, threading), CUDA and MPI.
/// If CUDA or MPI is missing, the line says why.
std::string build_info();

/// The version and the part of that line for one device. The call opens no other device.
///
/// Throws: DeviceError if the device does not answer.
std::string build_info(Device device);

}  // namespace linnet
