#include "support/run/trained_text_model.h"

#include <fmt/format.h>

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

}  // namespace linnet::examples
