#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/bench/bench_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Draws time and memory against the length of the text.
struct ScalingOptions {
  std::string figure = {};                   ///< one of figure_names(), which sets the other options; empty for none
  std::vector<std::string> mechanisms = {};  ///< empty for all, or for all that have a causal form
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t least_tokens = 128, most_tokens = 65536;
  int64_t heads = 4;
  int64_t layers = 0;  ///< Transformer layers; 0 for an attention alone
  bool causal = false;
  double limit_seconds = 10;  ///< lengths whose step is expected to take longer are skipped
  std::filesystem::path out = "out/scaling";
};

/// The words for a published figure: "wu" for Wu et al. 2021, figure 2, and "fast" for Gerami et al. 2024, figure 3.
std::vector<std::string> figure_names();
/// Sets the options, and the mechanisms' own options in `settings`, to those of the figure. Call it before parsing,
/// so that flags change single ones. Other words, which the flag refuses, change nothing.
void set_figure(const std::string& figure, ScalingOptions& options, Settings& settings);

void add_scaling_flags(CLI::App& app, ScalingOptions& options);

/// Measures lengths that double from least_tokens on, with a batch of 4,096 tokens, or of one sequence if that is
/// longer. Each mechanism takes those options of `bench.settings` that it has. Prints a table (or one JSON object per
/// line) and writes three log-log pictures for each head dim: time forward, time forward and backward, memory.
void run_scaling(const ScalingOptions& options, const BenchOptions& bench);

}  // namespace linnet::examples
