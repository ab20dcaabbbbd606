#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/bench/bench_case.h"

namespace linnet::examples {

/// One call of one kernel, on tensors that it holds.
struct KernelCase {
  std::string note;  ///< which use of the kernel, if it has several
  double flops;      ///< approximate count of additions, multiplications and elementary functions
  std::function<void()> run;
  double passes = 1;  ///< passes over the operands: above 1 if some are both read and written
};

/// Every main kernel at the size of a layer, with activations of `at.dtype`. Each function creates its case with
/// tensors, so that only one case's tensors need exist at a time.
std::vector<std::function<KernelCase()>> kernel_cases(const AttentionCase& at);

/// A copy of 4·side² float32 numbers, and a product of two side × side matrices. Their rates bound the other kernels.
KernelCase copy_case(int64_t side, Device device);
KernelCase product_case(int64_t side, DType dtype, Device device);

}  // namespace linnet::examples
