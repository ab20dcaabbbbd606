#pragma once

#include <nlohmann/json_fwd.hpp>

#include "support/bench/bench_case.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// What the flags of `bench` say, whatever it measures.
struct BenchOptions {
  Settings settings = {};  ///< the machine and the seed; for `step` and `generate` the model too
  bool json = false;       ///< objects, in place of a table
  double seconds = 1;      ///< that each figure is measured for
};

/// Prints figures as one JSON object on one line, at once, beside the machine that they are of: device, precision and
/// threads.
void print_json(const BenchOptions& options, nlohmann::json figures);

/// What was measured, and of what.
nlohmann::json case_json(const AttentionCase& c, const Measured& measured);

}  // namespace linnet::examples
