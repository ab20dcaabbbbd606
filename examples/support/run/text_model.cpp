#include "support/run/text_model.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/nn/data/utf8.h>

#include "support/run/run_folder.h"
#include "support/settings/program.h"
#include "support/tasks/task.h"

namespace linnet::examples {
namespace {

/// The settings of the run in `folder`, which must be one of train_text.
Settings text_settings(const std::filesystem::path& folder) {
  Settings settings = read_config(folder);
  if (settings.task != "shakespeare") {
    throw ValueError(fmt::format("{} holds a model for {}, which writes no text", folder.string(), settings.task));
  }
  return settings;
}

constexpr const char* kBytes = "bytes";

nn::Vocabulary vocabulary_of(const RunWeights& weights) {
  const auto codes = weights.metadata().find("vocabulary");
  if (codes == weights.metadata().end()) {
    throw IoError(fmt::format("{} holds no vocabulary", weights.path().string()));
  }
  const auto characters = weights.metadata().find("characters");
  const bool bytes =
      characters == weights.metadata().end() || characters->second == kBytes;  // older files do not say
  std::istringstream stream(codes->second);
  std::string text;
  for (uint32_t code = 0; stream >> code;) {
    if (bytes) {
      text += static_cast<char>(code);
    } else {
      detail::append_code_point(text, code);
    }
  }
  return nn::Vocabulary(text, bytes ? nn::Characters::bytes : nn::Characters::code_points);
}

}  // namespace

nn::DecoderConfig text_model_config(const Settings& s, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = s.context,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .block = block_config(s),
          .positions = positions_of(s)};
}

TrainedTextModel::TrainedTextModel(const std::filesystem::path& folder, const Settings& machine)
    : settings(text_settings(folder)),
      weights(folder, settings),
      vocabulary(vocabulary_of(weights)),
      rng(machine.seed),
      model(rng, text_model_config(settings, vocabulary.size()), DType::float32, device_of(machine)) {
  weights.load_into(model);
  model.eval();
}

std::string default_prompt(const nn::Vocabulary& vocabulary) {
  const bool has_lines = std::ranges::count(vocabulary.codes(), U'\n') > 0;
  return has_lines ? "\n" : vocabulary.decode(std::array<int64_t, 1>{0});
}

void generate(nn::DecoderLM& model, const nn::Vocabulary& vocabulary, const SampleOptions& options, Generator& rng,
              const std::function<void(const std::string&)>& write) {
  const std::vector<int64_t> prompt = vocabulary.encode(options.prompt);
  if (prompt.empty()) throw ValueError("the prompt is empty; give at least one character");
  write(options.prompt);
  nn::generate(model, prompt, rng,
               {.max_new_tokens = options.tokens, .temperature = options.temperature, .top_k = options.top_k},
               [&](int64_t id) { write(vocabulary.decode({&id, 1})); });
}

std::map<std::string, std::string> vocabulary_metadata(const nn::Vocabulary& vocabulary) {
  const std::vector<uint32_t> codes(vocabulary.codes().begin(), vocabulary.codes().end());
  return {{"vocabulary", fmt::format("{}", fmt::join(codes, " "))},
          {"characters", vocabulary.kind() == nn::Characters::bytes ? kBytes : "code points"}};
}

}  // namespace linnet::examples
