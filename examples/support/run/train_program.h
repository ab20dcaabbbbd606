#pragma once

#include <string>

namespace linnet::examples {

/// The main function of the trainer `name`: trains one model and prints its results. Returns the exit code.
int train_program(int argc, char** argv, const std::string& name, const std::string& task, const std::string& preset,
                  const std::string& description);

}  // namespace linnet::examples
