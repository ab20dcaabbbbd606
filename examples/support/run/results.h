#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "support/tasks/task.h"

namespace linnet::examples {

/// The processes that trained together, with what rank 0 measured if there are several.
struct Processes {
  int64_t count = 1;
  double waited_ms_per_step = 0;  ///< mean wait for others after the last gradient was computed
  /// Mean, for the sums of gradients; not known with --reduce any-order, where MPI decides what it sends.
  std::optional<double> sent_bytes_per_step = {};
};

/// The results of a finished run: the file results.json in its folder.
struct Results {
  int64_t step = 0;  ///< of the weights that were evaluated
  double loss = 0;   ///< of Task::test
  std::optional<double> accuracy = {};
  std::optional<double> constant_accuracy = {};  ///< Task::constant_accuracy
  Measures measures = {};
  double ms_per_step = 0;
  int64_t parameters = 0;
  int64_t peak_bytes = 0;
  Processes processes = {};
};

/// The measures in the JSON of an evaluation, by their names. Null is NaN.
Measures measures_of(const nlohmann::json& json);

void write_results(const std::filesystem::path& folder, const Results& results);

/// The results of the run in `folder`; nothing if it is not finished. Throws IoError for a damaged file.
std::optional<Results> read_results(const std::filesystem::path& folder);

}  // namespace linnet::examples
