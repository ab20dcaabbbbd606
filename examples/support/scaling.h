#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/nn/attention.h>
#include <CLI/CLI.hpp>

namespace linnet::examples {

/// The curves of Gerami et al. 2024, figure 3, and Wu et al. 2021, figure 2: time and memory against the length.
struct ScalingOptions {
  std::vector<std::string> mechanisms = nn::attention_mechanisms();
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t least_tokens = 128, most_tokens = 65536;
  int64_t heads = 4;
  bool causal = false;
  double limit_seconds = 10;  ///< a length whose step should take longer is left out
  uint64_t seed = 1337;
  Device device = Device::cpu;
  std::filesystem::path out = "out/scaling";
};

void add_scaling_flags(CLI::App& app, ScalingOptions& options);

/// Measures every length, a power of 2, with as many sequences as make 65,536 tokens or less; prints a table (or one
/// JSON object a line) and writes one log-log picture of times and one of memory for each width of a head.
void run_scaling(const ScalingOptions& options, bool json);

}  // namespace linnet::examples
