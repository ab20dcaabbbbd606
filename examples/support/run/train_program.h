#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/run/training.h"
#include "support/settings/settings.h"

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// A program that trains one model.
struct TrainProgram {
  std::string name;
  std::vector<std::string> tasks;  ///< if several, the flag --task chooses one, by default the first
  std::string description;
  std::function<void(CLI::App& app)> add_flags = {};  ///< adds further flags, if it is set
  /// Called with the flags' values before anything else is done. If it returns true, the program ends.
  std::function<bool(const Settings& settings)> instead_of_training = {};
  /// Called when the results are printed.
  std::function<void(const Settings& settings, const TrainingResult& result)> finish = {};
};

/// The main function of a trainer: trains one model and prints its results. Returns the exit code.
int train_program(int argc, char** argv, const TrainProgram& program);

}  // namespace linnet::examples
