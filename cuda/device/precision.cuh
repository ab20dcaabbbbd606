#pragma once

#include <linnet/core/dtype.h>

/// How products of float32 matrices are computed. The setting applies to cuBLAS and to our own kernels.

namespace linnet::cuda {

/// The precision that `set_precision` set last. By default it is that of the environment variable
/// LINNET_CUDA_PRECISION, or float32. Throws DeviceError if the variable has an unknown value.
Precision precision();

void set_precision(Precision precision);

}  // namespace linnet::cuda
