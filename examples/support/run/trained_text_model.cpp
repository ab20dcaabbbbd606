#include "support/run/trained_text_model.h"

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>

#include "support/run/run_folder.h"
#include "support/tasks/text_model.h"

namespace linnet::examples {
namespace {

/// The settings of the run in `folder`, which must be one of train_text.
Settings text_settings(const std::filesystem::path& folder) {
  Settings settings = read_config(folder);
  if (kind_of(settings.task) != TaskKind::text) {
    throw ValueError(fmt::format("{} holds a model for {}, which writes no text", folder.string(), settings.task));
  }
  return settings;
}

}  // namespace

TrainedTextModel::TrainedTextModel(const std::filesystem::path& folder, const Settings& machine)
    : settings(text_settings(folder)),
      weights(folder, settings),
      vocabulary(vocabulary_of(weights.metadata(), weights.path())),
      rng(machine.seed),
      model(rng, text_model_config(settings, vocabulary.size()), DType::float32, device_of(machine)) {
  weights.load_into(model);
  model.eval();
}

bool holds_gpt2(const std::filesystem::path& folder) {
  try {
    const auto config = linnet::detail::parse_json(
        linnet::detail::read_file(folder / "config.json", linnet::detail::kMaxJsonTree + 1));
    return config.is_object() && config.value("model_type", nlohmann::json()) == "gpt2";
  } catch (const IoError&) {  // the error of a run's file says more
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

ReleasedGpt2::ReleasedGpt2(const std::filesystem::path& folder, const Settings& machine)
    : tokenizer(nn::BytePairTokenizer::load(folder)),
      eos_token_id(nn::read_gpt2_eos_token_id(folder / "config.json")),
      rng(machine.seed),
      model(rng, nn::read_gpt2_config(folder / "config.json"), DType::float32, device_of(machine)) {
  const int64_t rows = model.config().vocabulary;
  if (tokenizer.size() > rows) {
    throw ValueError(
        fmt::format("{}: vocab.json has {} tokens, but \"vocab_size\" in config.json is {}; take both from "
                    "one model",
                    folder.string(), tokenizer.size(), rows));
  }
  nn::load_gpt2(model, folder / "model.safetensors");
  model.eval();
}

}  // namespace linnet::examples
