#pragma once

#include <string>

namespace linnet {

/// One line: linnet's version, the CPU's instruction set, the BLAS (version, kernels, threading) and CUDA.
std::string build_info();

}  // namespace linnet
