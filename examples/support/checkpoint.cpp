#include "support/checkpoint.h"

#include <charconv>

#include <fmt/format.h>

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

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path folder, nn::Module& model, nn::Optimizer& optimizer,
                       std::map<std::string, std::string> metadata)
    : path_(std::move(folder) / "checkpoint.safetensors"),
      model_(model),
      optimizer_(optimizer),
      metadata_(std::move(metadata)) {}

void Checkpoint::save(const Position& position) const {
  Safetensors content{.tensors = {}, .metadata = metadata_};
  add(content.tensors, "model.", model_.state());
  add(content.tensors, "optimizer.", optimizer_.state());
  const Generator::State random = model_.generator().state();
  content.metadata["step"] = fmt::to_string(position.step);
  content.metadata["loss_sum"] = fmt::to_string(position.loss_sum);  // reads back to the bit
  content.metadata["loss_count"] = fmt::to_string(position.loss_count);
  content.metadata["generator_seed"] = fmt::to_string(random.seed);
  content.metadata["generator_draws"] = fmt::to_string(random.draws);
  write_safetensors(path_, content);
}

Checkpoint::Position Checkpoint::load() const {
  const Safetensors content = read_safetensors(path_);
  const auto read = [&](const std::string& name, auto& value) {
    const auto entry = content.metadata.find(name);
    const std::string text = entry == content.metadata.end() ? "" : entry->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw IoError(
          fmt::format("{} is no checkpoint of a training run: it has no number \"{}\"", path_.string(), name));
    }
  };
  Position position;
  Generator::State random{};
  read("step", position.step);
  read("generator_seed", random.seed);
  read("generator_draws", random.draws);
  if (content.metadata.contains("loss_count")) {  // as all have but the oldest
    read("loss_sum", position.loss_sum);
    read("loss_count", position.loss_count);
  }
  try {
    model_.load_state(take(content.tensors, "model."));
    optimizer_.load_state(take(content.tensors, "optimizer."));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{} is of another run: {}", path_.string(), error.what()));
  }
  model_.generator().set_state(random);
  return position;
}

}  // namespace linnet::examples
