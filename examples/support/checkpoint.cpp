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

void Checkpoint::save(int64_t step) const {
  Safetensors content{.tensors = {}, .metadata = metadata_};
  add(content.tensors, "model.", model_.state());
  add(content.tensors, "optimizer.", optimizer_.state());
  const Generator::State random = model_.generator().state();
  content.metadata["step"] = std::to_string(step);
  content.metadata["generator_seed"] = std::to_string(random.seed);
  content.metadata["generator_draws"] = std::to_string(random.draws);
  write_safetensors(path_, content);
}

int64_t Checkpoint::load() const {
  const Safetensors content = read_safetensors(path_);
  const auto number = [&](const std::string& name) -> uint64_t {
    const auto entry = content.metadata.find(name);
    const std::string text = entry == content.metadata.end() ? "" : entry->second;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
      throw IoError(
          fmt::format("{} is no checkpoint of a training run: it has no number \"{}\"", path_.string(), name));
    }
    return value;
  };
  const auto step = static_cast<int64_t>(number("step"));
  const Generator::State random{number("generator_seed"), number("generator_draws")};
  model_.load_state(take(content.tensors, "model."));
  optimizer_.load_state(take(content.tensors, "optimizer."));
  model_.generator().set_state(random);
  return step;
}

}  // namespace linnet::examples
