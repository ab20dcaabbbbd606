#pragma once

#include <string>

namespace linnet::examples {

/// The main of the trainer `name`: reads flags, trains one model, prints what came of it. Returns the exit code.
int train_program(int argc, char** argv, const std::string& name, const std::string& task, const std::string& preset,
                  const std::string& description);

}  // namespace linnet::examples
