#pragma once

#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "support/settings/settings.h"

/// What every program has in common: flags, exit codes, Ctrl-C.

namespace linnet::examples {

/// A wrong command line: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ctrl-C or SIGTERM, after what was under way was saved: exit code 130. The message says how to go on.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A message as one line: the items of a list, which are lines indented by two spaces or more, become parts of a
/// sentence.
std::string one_line(std::string_view message);

/// Runs `body` and turns how it ends into an exit code: 0 done; 1 failed, or what it printed could not be written,
/// with one line on stderr; 2 wrong command line; 130 interrupted.
int run_program(const CLI::App& app, const std::function<void()>& body);

/// From now on Ctrl-C and SIGTERM set `interrupted()`, where a third one ends the program at once (`timeout` sends
/// two), and stay ignored where the program was started so, as in the background of a script; and a reader of its
/// output that goes away, as `| head` does, stops no work.
void catch_interrupts();
bool interrupted();

/// A check for a flag: a whole number from `least` to `most`, which 64 bits hold. (CLI11 itself takes the nearest
/// that they do.)
CLI::Validator whole_number(int64_t least = std::numeric_limits<int64_t>::min(),
                            int64_t most = std::numeric_limits<int64_t>::max());
/// A check for a flag: a file or folder. (An empty one comes from a variable of a shell that is not set.)
CLI::Validator path();
/// A check for a flag: a number from `least` to `most`. (CLI11's own lets nan through.)
CLI::Validator number(double least, double most);

/// --version, --seed, --threads, --device, --precision.
void add_common_flags(CLI::App& app, Settings& settings);
/// Which mechanism, and what only some of them have.
void add_attention_flags(CLI::App& app, Settings& settings);
/// --short-conv, which is one of them, for a program that chooses the mechanisms itself.
void add_short_conv_flag(CLI::App& app, Settings& settings);
/// What else the model is made of.
void add_model_flags(CLI::App& app, Settings& settings);
/// --data, and how it is read.
void add_data_flags(CLI::App& app, Settings& settings);
/// What it learns from, how it is trained, and where results go.
void add_training_flags(CLI::App& app, Settings& settings);

/// After parsing: what one flag means for settings that no flag named. --steps and --epochs replace a preset's other
/// one, and fewer steps have a shorter warm-up.
void settle_training_flags(const CLI::App& app, Settings& settings);

/// The value of a flag that decides which flags there are and what they start from, before any are parsed.
std::string flag_value(int argc, char** argv, const std::string& flag, const std::string& fallback);

/// What was typed, as a shell takes it.
std::string command_line(std::vector<std::string> words);

/// The task that the command line names, or the first one, which decides what flags there are. Throws UsageError for
/// one that does not exist. Call before the flags are parsed.
std::string task_from_flag(int argc, char** argv);
/// --task, whose value `task_from_flag` has read.
void add_task_flag(CLI::App& app, std::string& task, const std::string& note = "");

/// Starts from the preset that the command line names, if it names one, so that other flags change single
/// settings of it. Call before the flags are parsed.
Settings settings_from_preset(int argc, char** argv, const std::string& task, const std::string& fallback);

/// Applies --threads and --precision, and refuses a device that is not there, a precision that it does not have, or
/// event files that were not built, before long work starts.
void apply_machine_settings(const Settings& settings);

}  // namespace linnet::examples
