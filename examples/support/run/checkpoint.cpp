#include "support/run/checkpoint.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "support/files.h"
#include "support/ranks.h"
#include "support/run/run_folder.h"

namespace linnet::examples {
namespace {

/// Loads a checkpoint. It replaces the library's advice, such as to copy the file again: here a run wrote the file.
void load_with_remedy(nn::Checkpoint& checkpoint, const nn::LoadOptions& options = {}) {
  try {
    checkpoint.load(options);
  } catch (const IoError& error) {
    const std::string_view message = error.message();  // "what is wrong; advice"
    throw IoError(fmt::format("{}; {}", message.substr(0, message.rfind("; ")), kRemedy));
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}; {}", error.message(), kRemedy));
  }
}

constexpr const char* kUnevaluated = "unevaluated";  // the seconds since the last evaluation

std::filesystem::path checkpoint_in(const std::filesystem::path& folder) { return folder / "checkpoint.safetensors"; }

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& folder, nn::Module& model, nn::ZeroRedundancyOptimizer& optimizer,
                       Position& position, std::map<std::string, std::string> metadata, BestWeights* best)
    : seconds_(position.seconds), all_(checkpoint_in(folder), std::move(metadata)) {
  all_.add("step", position.step).add("loss_sum", position.loss_sum).add("loss_count", position.loss_count);
  all_.add("seconds", seconds_);
  all_.add("model", model).add("generator", model.generator()).add("optimizer", optimizer);
  if (best != nullptr) all_.add("best", *best);
}

TensorMap Checkpoint::Seconds::state() const {
  if (!seconds_) return {};
  return {{kUnevaluated, full({1}, *seconds_, DType::float64)}};
}

void Checkpoint::Seconds::load_state(const TensorMap& state) {
  std::optional<double> seconds;
  if (const auto found = state.find(kUnevaluated); found != state.end()) {
    if (found->second.numel() != 1) throw ValueError(fmt::format("{} numbers, not one", found->second.numel()));
    seconds = found->second.to(DType::float64).item();
  }
  seconds_ = seconds;
}

void Checkpoint::save() const { all_.save(ranks()); }

void Checkpoint::load() { load_with_remedy(all_); }

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
  int64_t step = 0;
  nn::Checkpoint checkpoint(checkpoint_in(folder));
  load_with_remedy(checkpoint.add("step", step), {.strict = false});
  return step;
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
  step_ = steps_done(folder);
  metadata_ = read_safetensors(path_).metadata;
  notice_ = fmt::format(
      "the run in {} has no model.safetensors: taking the weights of its checkpoint, step {} of {}\n",
      folder.string(), *step_, settings.epochs > 0 ? length_of(settings) : fmt::to_string(settings.steps));
}

void RunWeights::load_into(nn::Module& model) const {
  if (!step_) {
    model.load(path_);
    return;
  }
  nn::Checkpoint checkpoint(path_);
  load_with_remedy(checkpoint.add("model", model), {.strict = false});
  std::fputs(notice_.c_str(), stderr);
}

}  // namespace linnet::examples
