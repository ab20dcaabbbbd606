#pragma once

#include <linnet/core/dtype.h>

/// How products of float32 matrices are made: the one setting that cuBLAS and our own kernels go by.

namespace linnet::cuda {

/// What `set_precision` asked for last; before that what the environment variable LINNET_CUDA_PRECISION names, or
/// float32. Throws DeviceError when the variable names none.
Precision precision();

void set_precision(Precision precision);

}  // namespace linnet::cuda
