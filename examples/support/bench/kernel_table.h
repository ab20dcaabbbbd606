#pragma once

#include <CLI/CLI.hpp>

#include "support/bench/bench_options.h"

namespace linnet::examples {

/// The main kernels of a device, and at which size they are measured.
struct KernelOptions {
  AttentionCase at{.batch = 16, .head_dim = 64};  ///< a layer's: its mechanism, form and dropout are not used
  int64_t side = 4096;  ///< of the square matrices whose copy and whose product give the rates
};

void add_kernel_flags(CLI::App& app, KernelOptions& options);

/// Times each kernel, and prints it beside the time that it would take if nothing but the copy rate of memory or the
/// rate of matrix products limited it; both are measured in the same run. JSON is one object on one line.
void run_kernel_table(KernelOptions options, const BenchOptions& bench);

}  // namespace linnet::examples
