#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/run/training.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// A program that trains several mechanisms and compares them.
struct CompareProgram {
  std::string name;
  std::string description = "Trains several attention mechanisms on the same task, with the same budget and seed.";
  std::vector<std::string> tasks = {};       ///< those of --task; all if empty; with one there is no such flag
  std::vector<std::string> mechanisms = {};  ///< the default of --attention; all if empty
  std::function<void(CLI::App& app)> add_flags = {};  ///< adds further flags, if it is set
  /// Called with the settings of all runs before the first one trains. It may throw UsageError.
  std::function<void(const std::vector<Settings>& runs)> check = {};
  /// Called when a run has trained. It returns further cells of its row, each with the name of its column.
  std::function<std::vector<std::pair<std::string, std::string>>(Task& task, const TrainingResult& result)>
      more_cells = {};
  /// Called with the runs' names and results when the table is printed.
  std::function<void(const std::vector<std::pair<std::string, const TrainingResult*>>& runs)> finish = {};
};

/// The main function of `compare` and its like: trains several mechanisms on one task with the same budget and seed,
/// prints a table and draws the losses against steps and against seconds. Returns the exit code.
int compare_program(int argc, char** argv, const CompareProgram& program);

}  // namespace linnet::examples
