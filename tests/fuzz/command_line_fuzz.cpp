#include <sstream>
#include <vector>

#include <CLI/CLI.hpp>

#include "support/settings/program.h"
#include "tests/fuzz/fuzz_target.h"

/// The arguments of a trainer, one a line. The target stops where the trainer's work would begin.

namespace linnet::fuzz {

const int64_t memory_allowance = int64_t{16} << 20;

void run_arguments(Bytes input) {
  std::vector<std::string> words{"train_shakespeare"};
  std::istringstream lines(text_of(input));
  for (std::string line; std::getline(lines, line);) words.push_back(line.substr(0, line.find('\0')));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const auto argc = static_cast<int>(argv.size());

  CLI::App app("a trainer", "train_shakespeare");
  examples::Settings settings = examples::settings_from_preset(argc, argv.data(), "shakespeare", "nanogpt-cpu");
  examples::add_common_flags(app, settings);
  examples::add_attention_flags(app, settings);
  examples::add_model_flags(app, settings);
  examples::add_training_flags(app, settings);
  app.parse(argc, argv.data());
  examples::settle_training_flags(app, settings);
  examples::validate(settings);
  (void)examples::describe(settings);
}

/// CLI11 keeps a word in several lists, and a word may be a single letter.
void run(Bytes input) {
  const int64_t words = 128 * static_cast<int64_t>(input.size());
  checked(input, [&] { return run_arguments(input), words; }, words);
}

}  // namespace linnet::fuzz
