#include "support/checkpoint.h"

#include <charconv>

#include <fmt/format.h>

#include "support/run_folder.h"

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
  const Safetensors content = read(path_);
  const auto take_number = [&](const std::string& name, auto& value) {
    const auto entry = content.metadata.find(name);
    const std::string text = entry == content.metadata.end() ? "" : entry->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw IoError(fmt::format("{} is no checkpoint of a training run: it has no number \"{}\"; {}", path_.string(),
                                name, kRemedy));
    }
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
  TensorMap before;  // the model's, for a file whose weights fit it and whose optimizer does not
  for (const auto& [name, tensor] : model_.state()) before[name] = tensor.clone();
  try {
    model_.load_state(take(content.tensors, "model."));
    optimizer_.load_state(take(content.tensors, "optimizer."));
  } catch (const ValueError& error) {
    model_.load_state(before);
    throw ValueError(fmt::format("{} is of another run: {}; {}", path_.string(), error.what(), kRemedy));
  }
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

}  // namespace linnet::examples
