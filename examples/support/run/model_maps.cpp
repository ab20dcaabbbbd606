#include "support/run/model_maps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "support/run/checkpoint.h"
#include "support/run/run_folder.h"
#include "support/run/trained_text_model.h"
#include "support/settings/program.h"
#include "support/tasks/data_sets.h"
#include "support/tasks/task.h"

namespace linnet::examples {
namespace {

/// Throws IoError if the data that were found are not those that the model was trained on, for example a stand-in.
void check_data(const std::filesystem::path& folder, const ModelMaps& model, const std::string& found) {
  if (same_data(found, model.data)) return;
  throw IoError(fmt::format("the model in {} learned from {}, but there is {}; name its file or folder with --data{}",
                            folder.string(), model.data, found,
                            kind_of(model.settings.task) == TaskKind::images ? "" : ", or give a --prompt"));
}

void check_flags(const std::filesystem::path& folder, const MapInput& input, const std::string& task) {
  const TaskKind kind = kind_of(task);
  if (kind != TaskKind::text && kind != TaskKind::images) {
    const std::string why = kind == TaskKind::sequences ? "whose sequences are too long for a picture of their maps"
                                                        : "of whose maps there are no pictures";
    throw UsageError(fmt::format("{} holds a model of {}, {}; choose a run of {} or {}", folder.string(),
                                 programs_of(task), why, programs_of("mnist"), programs_of("shakespeare")));
  }
  if (kind == TaskKind::images && input.prompt) {
    throw UsageError(fmt::format("--prompt does not apply to {}, a model for images", folder.string()));
  }
  if (kind == TaskKind::text && input.image) {
    throw UsageError(fmt::format("--image does not apply to {}, a model for text", folder.string()));
  }
}

/// The model's settings, with the path of its data: machine.data, or else that of the model's run.
Settings source_of(const std::filesystem::path& folder, const ModelMaps& model, const Settings& machine) {
  Settings settings = model.settings;
  settle_data(folder, machine.data, settings);
  return settings;
}

constexpr size_t kMostTokens = 1024;  // a larger picture cannot be read

std::string prompt_for(const std::filesystem::path& folder, ModelMaps& model, const MapInput& input,
                       const Settings& machine) {
  if (input.prompt) {
    model.input = "a prompt";
    return *input.prompt;
  }
  const NamedText source = load_text(source_of(folder, model, machine));
  check_data(folder, model, source.name);
  model.input = "the beginning of the validation text";
  const auto text = source.text.validation();
  const auto length = std::min({text.size(), static_cast<size_t>(model.settings.context), kMostTokens});
  return source.text.vocabulary().decode(text.first(length));
}

/// A description of the settings and, for a run that has not ended, its step.
std::string training_of(const ModelMaps& model, const RunWeights& weights) {
  return describe(model.settings) + (weights.step() ? fmt::format(", at step {}", *weights.step()) : "");
}

/// The maps of all attentions that `run` evaluates.
template <class Run>
std::vector<nn::AttentionMap> maps_while(const Run& run) {
  const NoGrad no_grad;
  const nn::AttentionMaps maps;
  run();
  return maps.all();
}

void show_text(const std::filesystem::path& folder, ModelMaps& model, const MapInput& input,
               const Settings& machine) {
  const std::string prompt = prompt_for(folder, model, input, machine);
  if (prompt.empty()) throw ValueError("the prompt is empty; give at least one character");
  const TrainedTextModel trained(folder, machine);
  model.training = training_of(model, trained.weights);
  const std::vector<int64_t> ids = trained.vocabulary.encode(prompt);
  if (ids.size() > kMostTokens) {
    throw ValueError(
        fmt::format("the prompt has {} characters; a picture shows {} at the most", ids.size(), kMostTokens));
  }
  for (const int64_t id : ids) model.tokens.push_back(trained.vocabulary.decode({&id, 1}));
  model.maps = maps_while([&] { trained.model(tensor(ids).unsqueeze(0).to(device_of(machine))); });
}

void show_image(const std::filesystem::path& folder, ModelMaps& model, const MapInput& input,
                const Settings& machine) {
  const RunWeights weights(folder, model.settings);
  model.training = training_of(model, weights);
  const NamedImages source = load_images(source_of(folder, model, machine));
  check_data(folder, model, source.name);
  const int64_t number = input.image.value_or(0);
  if (number < 0 || number >= source.test.size()) {
    throw UsageError(fmt::format("--image {}: the test images are 0 to {}", number, source.test.size() - 1));
  }
  Generator rng(machine.seed);
  nn::PatchClassifier net(
      rng, image_model_config(model.settings, source.test.height(), nn::class_count(source.train, source.test)),
      DType::float32, device_of(machine));
  weights.load_into(net);
  net.eval();
  const nn::Batch batch = source.test.collate(std::vector{number}, {});
  model.input = fmt::format("test image {}, label {}", number, batch.targets.item<int64_t>());
  model.maps = maps_while([&] { net(batch.inputs.to(device_of(machine))); });
}

}  // namespace

ModelMaps read_maps(const std::filesystem::path& folder, const MapInput& input, const Settings& machine) {
  ModelMaps model;
  model.settings = read_config(folder, &model.data);
  check_flags(folder, input, model.settings.task);
  if (kind_of(model.settings.task) == TaskKind::images) {
    show_image(folder, model, input, machine);
  } else {
    show_text(folder, model, input, machine);
  }
  return model;
}

HeatMap heat_map_of(const ModelMaps& model, int64_t index, int64_t head) {
  const Tensor weights = model.maps[static_cast<size_t>(index)].weights.select(0, 0).select(0, head);
  HeatMap map{.rows = weights.size(0), .cols = weights.size(1), .values = weights.to_vector<double>()};
  const bool causal = kind_of(model.settings.task) == TaskKind::text;
  for (int64_t i = 0; i < map.rows; ++i) {
    const std::span row(map.values.data() + i * map.cols, static_cast<size_t>(map.cols));
    for (double& weight : row) weight = std::abs(weight);  // a weight may be negative
    const double largest = std::ranges::max(row);
    for (double& weight : row) weight /= largest > 0 ? largest : 1;  // a row may see no token
    if (causal) std::ranges::fill(row.subspan(static_cast<size_t>(i + 1)), std::numeric_limits<double>::quiet_NaN());
  }
  map.x_ticks = model.tokens;
  map.y_ticks = map.rows == map.cols ? model.tokens : std::vector<std::string>{"all"};
  return map;
}

}  // namespace linnet::examples
