#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/bench/bench_case.h"

namespace linnet::examples {

/// One call of one kernel, on tensors that it holds.
struct KernelCase {
  std::string note;  ///< which use of the kernel, where it has several
  double flops;      ///< additions, multiplications and functions of a number, about
  std::function<void()> run;
  double passes = 1;  ///< over its operands: more than 1 where some are both read and written
};

/// Every main kernel at the size of a layer, whose activations are of `at.dtype`. Each makes its tensors when it is
/// called, so that those of one case need not live beside those of the others.
std::vector<std::function<KernelCase()>> kernel_cases(const AttentionCase& at);

/// A copy of 4·side² float32 numbers, and a product of two matrices of side² each: what limits the others.
KernelCase copy_case(int64_t side, Device device);
KernelCase product_case(int64_t side, DType dtype, Device device);

}  // namespace linnet::examples
