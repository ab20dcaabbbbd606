#pragma once

#include <string>
#include <vector>

#include "support/bench/bench_options.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Measures the number of tokens from which Fastmax's factorised form is faster. The table in ops/fastmax/form.cpp
/// holds these lengths.
struct CrossoverOptions {
  std::vector<std::string> mechanisms{"fastmax1", "fastmax2"};
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t heads = 4;
  int64_t most_tokens = 32768;
};

void add_crossover_flags(CLI::App& app, CrossoverOptions& options);

/// Finds each length by bisection, forward and backward, with `bench.seconds` for each measurement. Prints a table
/// (or one JSON object per line) of the lengths in theory, in ops/fastmax/form.cpp and measured.
void run_crossover(const CrossoverOptions& options, const BenchOptions& bench);

}  // namespace linnet::examples
