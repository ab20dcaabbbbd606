#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/bench/bench_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Draws time and memory against the length of the text, as in Gerami et al. 2024, figure 3, and Wu et al. 2021,
/// figure 2.
struct ScalingOptions {
  std::vector<std::string> mechanisms = {};  ///< empty for all, or for all that have a causal form
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t least_tokens = 128, most_tokens = 65536;
  int64_t heads = 4;
  bool causal = false;
  double limit_seconds = 10;  ///< lengths whose step is expected to take longer are left out
  std::filesystem::path out = "out/scaling";
};

void add_scaling_flags(CLI::App& app, ScalingOptions& options);

/// Measures lengths that double from least_tokens on, with a batch of 4,096 tokens, or of one sequence if that is
/// longer. Each mechanism takes those options of `bench.settings` that it has. Prints a table (or one JSON object per
/// line) and writes three log-log pictures for each head dim: time forward, time forward and backward, memory.
void run_scaling(const ScalingOptions& options, const BenchOptions& bench);

}  // namespace linnet::examples
