#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/settings/settings.h"

/// Flags, exit codes and Ctrl-C, the same in every program.

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace linnet::examples {

/// A wrong command line: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ended by Ctrl-C or SIGTERM after saving a checkpoint: exit code 130. The message says how to go on.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws UsageError if the mechanism that `flag` names has no causal form. The message lists those that have one.
void require_causal(std::string_view flag, std::string_view mechanism);

/// A message as one line. The items of a list, which are lines indented by two or more spaces, become parts of a
/// sentence.
std::string one_line(std::string_view message);

/// Runs `body` and returns the exit code: 0 when it is done, 1 when it failed or its output could not be written, 2
/// for a wrong command line, 130 when interrupted. Errors print one line on stderr.
int run_program(const CLI::App& app, const std::function<void()>& body);

/// From now on Ctrl-C and SIGTERM set `interrupted()`; a second one ends the program at once, unless it comes
/// together with the first, as those of `timeout` do. Signals that were ignored at the start, as in the background of
/// a script, stay ignored. SIGPIPE is ignored, so that work goes on when the reader of the output ends, as `| head`
/// does.
void catch_interrupts();
bool interrupted();

/// A check for a flag: a whole number from `least` to `most` that fits in 64 bits. (CLI11 itself would take the
/// nearest number that fits.)
CLI::Validator whole_number(int64_t least = std::numeric_limits<int64_t>::min(),
                            int64_t most = std::numeric_limits<int64_t>::max());
/// A check for a flag: a path that is not empty. (An unset shell variable gives an empty one.)
CLI::Validator path();
/// A check for a flag: a number from `least` to `most`. (CLI11's own check accepts nan.)
CLI::Validator number(double least, double most);

/// Adds --version, --seed, --threads, --device and --precision.
void add_common_flags(CLI::App& app, Settings& settings);
/// Adds --attention and the flags of add_attention_option_flags.
void add_attention_flags(CLI::App& app, Settings& settings);
/// Adds --attention-dropout, --short-conv and the flags of the mechanisms' options.
void add_attention_option_flags(CLI::App& app, Settings& settings);
/// Adds the flags of the mechanisms' options, which settings.options and settings.share hold.
void add_mechanism_flags(CLI::App& app, Settings& settings);
/// Adds a flag for several mechanisms. An empty list means all that a program can take. It is the default, and
/// the value of the word `all`.
void add_mechanism_list(CLI::App& app, const std::string& flag, std::vector<std::string>& mechanisms);
/// Adds --short-conv alone, for a program that sets the mechanisms' options itself.
void add_short_conv_flag(CLI::App& app, Settings& settings);
/// Adds the model's other flags: layers, heads, width, dropout, context or patch, positions.
void add_model_flags(CLI::App& app, Settings& settings);
/// The folders where programs look for a data set without --data, in this order, and their names for messages.
std::vector<std::filesystem::path> data_folders();
std::string data_places();
/// Adds --data and the flags that say how the data are read.
void add_data_flags(CLI::App& app, Settings& settings);
/// Adds --preset, the flags for data, and those of the training loop.
void add_training_flags(CLI::App& app, Settings& settings);

/// Call after parsing if the program runs one model: removes the preset's options for other mechanisms.
void drop_preset_options(const CLI::App& app, Settings& settings);

/// Call after parsing: adapts the settings without a flag to those with one. A number of steps replaces a preset's
/// epochs, and epochs its steps; fewer steps shorten the warm-up; a preset's constant learning rate stays constant.
void settle_training_flags(const CLI::App& app, Settings& settings);

/// The value of a flag before parsing, for flags that decide which other flags there are, and their defaults.
std::string flag_value(int argc, char** argv, const std::string& flag, const std::string& fallback);

/// The words as a command line, quoted for a shell.
std::string command_line(std::vector<std::string> words);

/// The task that the command line names, one of `names`, or else the first of them. Call before parsing: the task
/// decides which flags there are. Throws UsageError for an unknown task.
std::string task_from_flag(int argc, char** argv, const std::vector<std::string>& names);
/// Adds --task, whose value `task_from_flag` has read already.
void add_task_flag(CLI::App& app, std::string& task, const std::vector<std::string>& names,
                   const std::string& note = "");

/// The settings of the preset that the command line names, or of `fallback`. Call before parsing, so that other flags
/// change single settings.
Settings settings_from_preset(int argc, char** argv, const std::string& task, const std::string& fallback);

/// Applies --threads and --precision. Before long work starts, it throws for a missing device, for a precision that
/// the device does not have, and for event files if linnet was built without them.
void apply_machine_settings(const Settings& settings);

}  // namespace linnet::examples
