#include "support/run/checkpoint.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <linnet/core/files/utf8.h>

#include "support/files.h"
#include "support/run/run_folder.h"

namespace linnet::examples {
namespace {

void add(TensorMap& all, const std::string& prefix, const TensorMap& part) {
  for (const auto& [name, tensor] : part) all[prefix + name] = tensor;
}

TensorMap take(const TensorMap& all, const std::string& prefix) {
  TensorMap part;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = tensor;
  }
  return part;
}

/// What the file holds. The library's advice, to copy it again, is of no use to those whose run wrote it.
Safetensors read(const std::filesystem::path& path) {
  try {
    return read_safetensors(path);
  } catch (const IoError& error) {
    const std::string message = error.what();  // "what is wrong; advice"
    throw IoError(fmt::format("{}; {}", message.substr(0, message.rfind("; ")), kRemedy));
  }
}

/// A number among the texts of a checkpoint.
template <class Number>
Number number_in(const Safetensors& content, const std::filesystem::path& path, const std::string& name) {
  const auto entry = content.metadata.find(name);
  const std::string_view text = entry == content.metadata.end() ? "" : std::string_view(entry->second);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw IoError(fmt::format("{} is no checkpoint of a training run: it has no number \"{}\"; {}", path.string(),
                              name, kRemedy));
  }
  return value;
}

/// Throws ValueError for weights of a model that was built otherwise. Older checkpoints do not say how.
void check_settings(const nn::Module& model, const Safetensors& content) {
  const std::vector<nn::DifferentSetting> different = model.different_settings(content.metadata);
  if (different.empty()) return;
  const auto& [name, here, there, note] = different.front();
  throw ValueError(fmt::format("{} is {} here and {} there", name, here, linnet::detail::shortened(there)));
}

/// `load` copies what the checkpoint `path` holds: what does not fit is of another run.
template <class Load>
void load_from(const std::filesystem::path& path, Load&& load) {
  try {
    load();
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{} is of another run: {}; {}", path.string(), error.what(), kRemedy));
  }
}

std::filesystem::path checkpoint_in(const std::filesystem::path& folder) { return folder / "checkpoint.safetensors"; }

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder, nn::Module& model, nn::Optimizer& optimizer,
                       std::map<std::string, std::string> metadata)
    : path_(checkpoint_in(folder)), model_(model), optimizer_(optimizer), metadata_(std::move(metadata)) {}

void Checkpoint::save(const Position& position) const {
  Safetensors content{.tensors = {}, .metadata = model_.settings_metadata()};
  add(content.tensors, "model.", model_.state());
  add(content.tensors, "optimizer.", optimizer_.state());
  const Generator::State random = model_.generator().state();
  content.metadata.insert(metadata_.begin(), metadata_.end());
  content.metadata["step"] = fmt::to_string(position.step);
  content.metadata["loss_sum"] = fmt::to_string(position.loss_sum);  // reads back to the bit
  content.metadata["loss_count"] = fmt::to_string(position.loss_count);
  content.metadata["generator_seed"] = fmt::to_string(random.seed);
  content.metadata["generator_draws"] = fmt::to_string(random.draws);
  write_safetensors(path_, content);
}

Checkpoint::Position Checkpoint::load() const {
  const Safetensors content = read(path_);
  const auto take_number = [&]<class Number>(const std::string& name, Number& value) {
    value = number_in<Number>(content, path_, name);
  };
  Position position;
  Generator::State random{};
  take_number("step", position.step);
  take_number("generator_seed", random.seed);
  take_number("generator_draws", random.draws);
  if (content.metadata.contains("loss_count")) {  // as all have but the oldest
    take_number("loss_sum", position.loss_sum);
    take_number("loss_count", position.loss_count);
  }
  // The model is loaded first. If the optimizer then fails, the model's old values go back, which allocates nothing.
  std::vector<std::pair<Tensor, Tensor>> before;  // the model's tensors and copies of them
  for (const auto& [name, tensor] : model_.state()) before.emplace_back(tensor, tensor.clone());
  load_from(path_, [&] {
    check_settings(model_, content);
    model_.load_state(take(content.tensors, "model."));
    try {
      optimizer_.load_state(take(content.tensors, "optimizer."));
    } catch (...) {
      for (auto& [tensor, copy] : before) tensor.copy_(copy);
      throw;
    }
  });
  model_.generator().set_state(random);
  return position;
}

bool is_first_checkpoint(const std::filesystem::path& path) {
  try {
    const auto metadata = read_safetensors(path).metadata;
    const auto step = metadata.find("step");
    return step != metadata.end() && step->second == "0" && metadata.contains("generator_draws");
  } catch (const IoError&) {
    return false;
  }
}

int64_t steps_done(const std::filesystem::path& folder) {
  const std::filesystem::path path = checkpoint_in(folder);
  return number_in<int64_t>(read(path), path, "step");
}

RunWeights::RunWeights(const std::filesystem::path& folder, const Settings& settings)
    : path_(folder / "model.safetensors") {
  if (std::filesystem::exists(path_)) {
    metadata_ = read_safetensors(path_).metadata;
    return;
  }
  path_ = checkpoint_in(folder);
  if (!std::filesystem::exists(path_)) {
    throw IoError(
        fmt::format("{} has no weights, neither model.safetensors nor checkpoint.safetensors; name the --out folder "
                    "of a run that "
                    "has them",
                    folder.string()));
  }
  const Safetensors content = read(path_);
  metadata_ = content.metadata;
  step_ = number_in<int64_t>(content, path_, "step");
  notice_ = fmt::format(
      "the run in {} has no model.safetensors: taking the weights of its checkpoint, step {} of {}\n",
      folder.string(), *step_, settings.epochs > 0 ? length_of(settings) : fmt::to_string(settings.steps));
}

void RunWeights::load_into(nn::Module& model) const {
  if (!step_) {
    model.load(path_);
    return;
  }
  load_from(path_, [&] {
    const Safetensors content = read(path_);
    check_settings(model, content);
    model.load_state(take(content.tensors, "model."));
  });
  std::fputs(notice_.c_str(), stderr);
}

}  // namespace linnet::examples
