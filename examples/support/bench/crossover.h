#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "support/bench/bench_options.h"

namespace linnet::examples {

/// From how many tokens on Fastmax's factorised form is the faster one: what the table of ops/fastmax/form.cpp is
/// made from.
struct CrossoverOptions {
  std::vector<std::string> mechanisms{"fastmax1", "fastmax2"};
  std::vector<int64_t> head_dims{16, 32, 64, 128};
  int64_t heads = 4;
  int64_t most_tokens = 32768;
};

void add_crossover_flags(CLI::App& app, CrossoverOptions& options);

/// Searches each length by halves, forward and backward, each time measured for `bench.seconds`; prints a table (or
/// one JSON object a line) with the theory's lengths and the committed ones beside it.
void run_crossover(const CrossoverOptions& options, const BenchOptions& bench);

}  // namespace linnet::examples
