#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/run/training.h"
#include "support/spread.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// The runs of one mechanism, one for each seed.
struct ComparedRuns {
  std::string name;
  std::vector<TrainingResult> results;
  std::vector<Measures> more;  ///< CompareProgram::more_measures of each run

  /// The values of one number in all results.
  Spread spread(const std::function<double(const TrainingResult&)>& value) const;
  /// The values of number `i` of `more`.
  Spread spread_of_more(size_t i) const;
};

/// A program that trains several mechanisms and compares them.
struct CompareProgram {
  std::string name;
  /// The words that start the program, for the command that resumes it; empty: argv[0].
  std::vector<std::string> start = {};
  std::string description = "Trains several attention mechanisms on the same task, with the same budget and seeds.";
  std::vector<std::string> tasks = {};       ///< the choices of --task; all if empty; if it is one, there is no flag
  std::vector<std::string> mechanisms = {};  ///< the default of --attention; all if empty
  std::function<void(CLI::App& app)> add_flags = {};  ///< adds further flags, if it is set
  /// Called with the settings of all runs before the first one trains. It may throw UsageError.
  std::function<void(const std::vector<Settings>& runs)> check = {};
  /// Called after a run's training. It returns further numbers for its row, each with the name of its column.
  std::function<Measures(Task& task)> more_measures = {};
  /// Called with all runs when the table is printed.
  std::function<void(const std::vector<ComparedRuns>& runs)> finish = {};
};

/// The main function of `compare` and similar programs: trains several mechanisms on one task with the same budget
/// and seeds, prints a table of means over the seeds, and draws the losses of the first seed against steps and
/// against seconds. Returns the exit code.
int compare_program(int argc, char** argv, const CompareProgram& program);

}  // namespace linnet::examples
