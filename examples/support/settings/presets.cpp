#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/settings/program.h"
#include "support/settings/settings.h"

// The published presets, and how to find them by task and name.

namespace linnet::examples {
namespace {

Settings nanogpt_cpu() {
  Settings s;
  s.task = "shakespeare";
  s.preset = "nanogpt-cpu";
  return s;
}

Settings nanogpt_gpu() {
  Settings s = nanogpt_cpu();
  s.preset = "nanogpt-gpu";
  s.layers = 6;
  s.heads = 6;
  s.width = 384;
  s.context = 256;
  s.batch = 64;
  s.steps = 5000;
  s.dropout = 0.2;
  return s;
}

Settings mnist_small() {
  Settings s;
  s.task = "mnist";
  s.preset = "mnist-small";
  s.layers = 6;
  s.width = 96;
  s.feed_forward = 2;
  s.bias = true;
  s.batch = 128;
  s.steps = 0;
  s.epochs = 10;
  s.schedule = "one-cycle";
  s.min_lr = 0;
  s.warmup = 0;
  s.beta2 = 0.999;
  s.weight_decay = 0.01;
  s.decay_matrices_only = false;
  s.clip = 0;
  s.eval_every = 469;
  s.eval_batches = 0;
  return s;
}

std::vector<Settings> presets() { return {nanogpt_cpu(), nanogpt_gpu(), mnist_small()}; }

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Settings& known : presets()) {
    if (std::ranges::find(names, known.task) == names.end()) names.push_back(known.task);
  }
  return names;
}

std::vector<std::string> preset_names(const std::string& task) {
  std::vector<std::string> names;
  for (const Settings& known : presets()) {
    if (task.empty() || known.task == task) names.push_back(known.preset);
  }
  return names;
}

Settings preset(const std::string& task, const std::string& name) {
  for (const Settings& known : presets()) {
    if (known.preset == name && known.task == task) return known;
  }
  throw UsageError(
      fmt::format("--preset {}: the presets for {} are {}", name, task, fmt::join(preset_names(task), ", ")));
}

}  // namespace linnet::examples
