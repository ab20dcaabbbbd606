#pragma once

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>

#include "tests/examples/run/tiny_run.h"
#include "tests/support/child_program.h"

namespace linnet::examples::test {

/// A program that trains, and how it is started and killed.
struct KilledProgram {
  std::string name;
  Arguments flags;        ///< without --out
  std::string first_run;  ///< the folder of its first run, in --out
  /// The program of start number `start`, and its arguments for these flags.
  std::function<std::pair<std::string, Arguments>(int start, const Arguments& flags)> command;
  /// Kills it and waits for its end. Returns whether it was still running.
  std::function<bool(linnet::test::ChildProgram& run, std::mt19937_64& random)> kill;
};

/// How many kills a test makes: `few`, so that the suite is quick, or $LINNET_KILLS.
int wanted_kills(int few);
/// The seed of the kills' times: $LINNET_KILL_SEED, or a new one each time.
uint64_t kill_seed();

/// Kills a program at random moments, and resumes it each time. Checks that the files on the disk are complete each
/// time, and that its runs end as those that were never stopped. The runs are in the folders `whole` and `parts` of
/// `folder`. Returns how often the program was still running when it was killed.
int check_killed(const std::filesystem::path& folder, const KilledProgram& program, int kills,
                 std::mt19937_64& random);

/// The step of the checkpoint in `folder`, or -1 if the folder holds no run. If it holds one, its checkpoint must be
/// complete.
int64_t step_in(const std::filesystem::path& folder);

/// The metrics, except times and memory.
std::string results_in(const std::filesystem::path& folder);

/// Checks that two folders hold bit-identical runs, except for times and memory.
void check_same_runs(const std::filesystem::path& folder, const std::filesystem::path& expected);

}  // namespace linnet::examples::test
