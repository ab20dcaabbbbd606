#pragma once

#include <string>

namespace linnet::examples {

/// The main function of `compare`: trains several mechanisms on one task with the same budget and seed, prints a
/// table and draws the losses against steps and against seconds. Returns the exit code.
int compare_program(int argc, char** argv, const std::string& name);

}  // namespace linnet::examples
