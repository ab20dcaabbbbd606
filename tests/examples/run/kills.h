#pragma once

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>

#include "tests/examples/run/tiny_run.h"
#include "tests/support/child_program.h"

namespace linnet::examples::test {

/// How a run is started and killed.
struct KilledRun {
  /// The program of start number `start`, and its arguments for a trainer's flags.
  std::function<std::pair<std::string, Arguments>(int start, const Arguments& flags)> command;
  /// Kills it and waits for its end. Returns whether it was under way.
  std::function<bool(linnet::test::ChildProgram& run, std::mt19937_64& random)> kill;
};

/// Kills a run of train_shakespeare with these flags at random moments, and goes on with it each time: whatever the
/// moment, what is on the disk is whole, and the run ends as one that was never stopped. There are `few` kills, so
/// that the suite is quick, or $LINNET_KILLS of them. The moments are new each time, unless $LINNET_KILL_SEED says
/// which.
void check_killed(const Workshop& shop, const Arguments& flags, int few, const KilledRun& run);

/// The step of the checkpoint in `folder`, which must be whole if the folder holds a run; -1 if it does not.
int64_t step_in(const std::filesystem::path& folder);

/// The metrics that do not tell of time and memory.
std::string results_in(const std::filesystem::path& folder);

}  // namespace linnet::examples::test
