#pragma once

#include <string>

namespace linnet::examples {

/// The program `compare`: trains several of the mechanisms on one task with one budget and seed, prints one table and
/// draws the losses against steps and against seconds. Returns main's exit status.
int compare_program(int argc, char** argv, const std::string& name);

}  // namespace linnet::examples
