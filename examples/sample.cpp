/// Writes text from a trained model.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/files.h"
#include "support/run/trained_text_model.h"
#include "support/settings/program.h"
#include "support/tasks/text_model.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

/// Throws UsageError if the prompt has characters that the model does not know.
void check_prompt(const nn::Tokenizer& vocabulary, const std::string& prompt) {
  try {
    (void)vocabulary.encode(prompt);
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--prompt: {}; give one without it", error.what()));
  }
}

void write_continuation(nn::DecoderLM& model, const nn::Tokenizer& vocabulary, const SampleOptions& options,
                        uint64_t seed) {
  check_prompt(vocabulary, options.prompt);
  Generator draws(seed);
  generate(model, vocabulary, options, draws, [](const std::string& text) {
    fmt::print("{}", text);
    flush_output();  // shows each token at once
  });
  fmt::print("\n");
}

/// Writes text that continues options.prompt, or the default prompt if the command line has none.
void write_sample(const std::filesystem::path& folder, SampleOptions options, bool has_prompt,
                  const Settings& machine) {
  if (holds_gpt2(folder)) {
    ReleasedGpt2 released(folder, machine);
    if (!has_prompt) options.prompt = "\n";
    options.eos_token_id = released.eos_token_id;
    write_continuation(released.model, released.tokenizer, options, machine.seed);
    return;
  }
  TrainedTextModel trained(folder, machine);
  if (!has_prompt) options.prompt = default_prompt(trained.vocabulary);
  write_continuation(trained.model, trained.vocabulary, options, machine.seed);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes text from a trained model.", "sample");
  return run_program(app, [&] {
    Settings settings;
    SampleOptions options;
    std::filesystem::path folder;
    add_common_flags(app, settings);
    app.add_option(
           "model", folder,
           "the --out folder of train_text or train_shakespeare, the checkpoint of a stopped run, or a folder of "
           "GPT-2 with config.json, model.safetensors, vocab.json and merges.txt")
        ->check(path())
        ->required();
    app.add_option("--prompt", options.prompt,
                   "how the text begins (default: a new line, or the model's first character if it knows none)")
        ->default_str("");
    app.add_option("--tokens", options.tokens,
                   "tokens to write: characters, or byte pairs of GPT-2, whose end token ends the text before")
        ->check(whole_number(0, 10'000'000));
    app.add_option("--temperature", options.temperature,
                   "0 for always the likeliest, 1 as trained, higher for more surprises");
    app.add_option("--top-k", options.top_k, "draw among the k likeliest; 0 for all")->check(whole_number(0));
    app.add_option("--top-p", options.top_p,
                   "draw among the fewest likeliest whose probabilities sum to at least p; 1 for all");
    app.parse(argc, argv);
    const bool has_prompt = app.count("--prompt") > 0;
    if (has_prompt && options.prompt.empty()) throw UsageError("--prompt is empty; give it at least one character");
    if (options.temperature != 0 && !(options.temperature >= 0.01 && options.temperature <= 100)) {
      throw UsageError(fmt::format("--temperature {}: must be 0, or from 0.01 to 100", options.temperature));
    }
    if (!(options.top_p > 0 && options.top_p <= 1)) {
      throw UsageError(fmt::format("--top-p {}: must be above 0, and at most 1", options.top_p));
    }
    for (const char* flag : {"--top-k", "--top-p"}) {
      if (options.temperature != 0 || app.count(flag) == 0) continue;
      throw UsageError(fmt::format("{} does not apply to --temperature 0, which takes the likeliest token", flag));
    }
    apply_machine_settings(settings);
    write_sample(folder, options, has_prompt, settings);
  });
}
