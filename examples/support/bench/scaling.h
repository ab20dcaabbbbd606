#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <linnet/nn/attention/attention.h>
#include <CLI/CLI.hpp>

#include "support/bench/bench_options.h"

namespace linnet::examples {

/// The curves of Gerami et al. 2024, figure 3, and Wu et al. 2021, figure 2: time and memory against the length.
struct ScalingOptions {
  std::vector<std::string> mechanisms = nn::attention_mechanisms();
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t least_tokens = 128, most_tokens = 65536;
  int64_t heads = 4;
  bool causal = false;
  double limit_seconds = 10;  ///< a length whose step should take longer is left out
  std::filesystem::path out = "out/scaling";
};

void add_scaling_flags(CLI::App& app, ScalingOptions& options);

/// Measures every length, from the shortest in powers of 2, with as many sequences as make 4,096 tokens, or with one;
/// prints a table (or one JSON object a line) and writes three log-log pictures for each width of a head: the time
/// forward, that forward and backward, and the memory.
void run_scaling(const ScalingOptions& options, const BenchOptions& bench);

}  // namespace linnet::examples
