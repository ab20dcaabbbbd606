#pragma once

#include <nlohmann/json_fwd.hpp>

#include "support/bench/bench_case.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// The flags that all subcommands of `bench` share.
struct BenchOptions {
  Settings settings = {};  ///< machine and seed; `step` and `generate` use the model too
  bool json = false;       ///< prints JSON objects instead of tables
  double seconds = 1;      ///< about how long to measure for each figure
};

/// Prints the figures as one JSON object on one line, with device, precision and threads, and flushes the output.
void print_json(const BenchOptions& options, nlohmann::json figures);

/// The case and its measurements as JSON.
nlohmann::json case_json(const AttentionCase& c, const Measured& measured);

}  // namespace linnet::examples
