#pragma once

#include <linnet/core/dtype.h>

/// How products of float32 matrices are computed: one setting for cuBLAS and our own kernels.

namespace linnet::cuda {

/// The precision that `set_precision` set last; before that the one in the environment variable
/// LINNET_CUDA_PRECISION, or float32. Throws DeviceError when the variable names none.
Precision precision();

void set_precision(Precision precision);

}  // namespace linnet::cuda
