#pragma once

#include "support/bench/bench_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// The sizes at which the kernels of a device are measured.
struct KernelOptions {
  AttentionCase at{.batch = 16, .head_dim = 64};  ///< a layer; mechanism, form and dropout are not used
  int64_t side = 4096;  ///< of the square matrices that are copied and multiplied for the rates
};

void add_kernel_flags(CLI::App& app, KernelOptions& options);

/// Times each kernel and compares it with its bound: the time that it would take at the rate of copies or of matrix
/// products, which are measured in the same run. Prints a table, or one JSON object on one line.
void run_kernel_table(KernelOptions options, const BenchOptions& bench);

}  // namespace linnet::examples
