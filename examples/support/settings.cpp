#include "support/settings.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/nn/attention.h>
#include <linnet/ops/fastmax.h>
#include <nlohmann/json.hpp>

#include "support/choices.h"
#include "support/json_value.h"
#include "support/task.h"

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

void require(bool ok, const std::string& message) {
  if (!ok) throw UsageError(message);
}

/// Calls `field(name, member)` for all that config.json holds.
template <class S, class Field>
void for_each_field(S& s, Field&& field) {
  field("task", s.task);
  field("preset", s.preset);
  field("attention", s.attention);
  field("short_conv", s.short_conv);
  field("positions", s.positions);
  field("attention_dropout", s.attention_dropout);
  field("layers", s.layers);
  field("heads", s.heads);
  field("width", s.width);
  field("feed_forward", s.feed_forward);
  field("context", s.context);
  field("bytes", s.bytes);
  field("normalise_newlines", s.normalise_newlines);
  field("patch", s.patch);
  field("transpose", s.transpose);
  field("bias", s.bias);
  field("dropout", s.dropout);
  field("batch", s.batch);
  field("accumulate", s.accumulate);
  field("steps", s.steps);
  field("epochs", s.epochs);
  field("schedule", s.schedule);
  field("lr", s.lr);
  field("min_lr", s.min_lr);
  field("warmup", s.warmup);
  field("beta1", s.beta1);
  field("beta2", s.beta2);
  field("weight_decay", s.weight_decay);
  field("decay_matrices_only", s.decay_matrices_only);
  field("clip", s.clip);
  field("eval_every", s.eval_every);
  field("eval_batches", s.eval_batches);
  field("checkpoint_every", s.checkpoint_every);
  field("tensorboard", s.tensorboard);
  field("seed", s.seed);
  field("device", s.device);
  field("precision", s.precision);
}

/// The same for what is there only when the command line says so.
template <class S, class Field>
void for_each_optional(S& s, Field&& field) {
  field("fastmax_scale", s.fastmax_scale);
  field("fastmax_form", s.fastmax_form);
  field("dropout_kind", s.dropout_kind);
  field("dropout_normaliser", s.dropout_normaliser);
  field("fastformer_interaction", s.fastformer_interaction);
  field("share", s.share);
  field("columns", s.columns);
}

/// Files of other mechanisms once held Fastformer's defaults.
void forget_fastformer_defaults(Settings& s) {
  if (s.attention == "fastformer") return;
  if (s.fastformer_interaction == "product") s.fastformer_interaction.reset();
  if (s.columns == 3) s.columns.reset();
  if (s.share) std::erase(*s.share, "query-value");
  if (s.share && s.share->empty()) s.share.reset();
}

/// Scores that the weights of fastmax bear: a larger scale takes their squares out of float32's range, and those of
/// fastmax1, 1 + score, must be positive.
void validate_fastmax_scale(const Settings& s) {
  if (!s.fastmax_scale) return;
  constexpr double kMost = 1e6;
  const std::string& text = *s.fastmax_scale;
  const int64_t head_width = s.width / s.heads;
  const double scale = fastmax_scale(block_config(s).attention.fastmax_scale, s.attention != "fastmax1", head_width);
  require(
      s.attention != "fastmax1" || scale * static_cast<double>(head_width) < 1,  // |q·k| is head_width at most
      fmt::format("--fastmax-scale {} does not apply to --attention fastmax1 with --width {} and --heads {}, whose "
                  "weights are positive only with a scale below 1/{}; use unit, a smaller number, or --attention "
                  "fastmax2",
                  text, s.width, s.heads, head_width));
  require(scale <= kMost, fmt::format("--fastmax-scale {}: must be at most {:.0f}", text, kMost));
}

void validate_fastmax(const Settings& s) {
  const bool fastmax = s.attention.starts_with("fastmax");
  const auto only_fastmax = [&](const char* flag, const std::optional<std::string>& value) {
    require(!value || fastmax, fmt::format("--{} does not apply to --attention {}", flag, s.attention));
  };
  only_fastmax("fastmax-scale", s.fastmax_scale);
  only_fastmax("fastmax-form", s.fastmax_form);
  const auto needs_dropout = [&](const char* flag, const std::optional<std::string>& value) {
    only_fastmax(flag, value);
    require(!value || s.attention_dropout > 0,
            fmt::format("--{} does not apply to --attention-dropout 0; give it a rate", flag));
  };
  needs_dropout("dropout-kind", s.dropout_kind);
  needs_dropout("dropout-normaliser", s.dropout_normaliser);
  validate_fastmax_scale(s);
  if (!fastmax || s.attention_dropout == 0) return;
  const std::string kind = *completed(s).dropout_kind;
  require(s.attention != "fastmax1" || kind != "quadratic",
          "--dropout-kind quadratic does not apply to --attention fastmax1, which has no quadratic features; use "
          "standard or token");
  require(s.fastmax_form != "quadratic" || kind == "token",
          fmt::format("--dropout-kind {} does not apply to --fastmax-form quadratic, which has no features to drop; "
                      "use --dropout-kind token or another form",
                      kind));
}

/// Flags that only Fastformer has.
void validate_fastformer(const Settings& s) {
  if (s.columns)
    require(*s.columns >= 2 && *s.columns <= 16, fmt::format("--columns {}: must be from 2 to 16", *s.columns));
  if (s.attention == "fastformer") return;
  const auto refuse = [&](const std::string& flag) {
    throw UsageError(fmt::format("{} does not apply to --attention {}", flag, s.attention));
  };
  if (s.fastformer_interaction) refuse("--fastformer-interaction " + *s.fastformer_interaction);
  if (s.columns) refuse(fmt::format("--columns {}", *s.columns));
  for (const char* what : {"query-value", "heads"}) {
    if (shares(s, what)) refuse(fmt::format("--share {}", what));
  }
}

/// Words that no table turns into a value here; the command line knows them, but config.json may hold anything.
void validate_words(const Settings& s) {
  const auto one_of = [](const char* flag, const std::string& word, const std::vector<std::string>& known) {
    require(std::ranges::find(known, word) != known.end(),
            fmt::format("--{} {}: must be one of {}", flag, word, fmt::join(known, ", ")));
  };
  one_of("task", s.task, task_names());
  one_of("attention", s.attention, nn::attention_mechanisms());
  one_of("schedule", s.schedule, {"cosine", "one-cycle"});
  const std::vector<std::string> share = s.share.value_or(std::vector<std::string>{});
  for (const std::string& word : share) one_of("share", word, share_words());
  require(share.size() == 1 || !shares(s, "none"),
          fmt::format("--share {}: none stands alone", fmt::join(share, ",")));
}

}  // namespace

Device device_of(const Settings& settings) { return choose(kDevices, "device", settings.device); }

DType model_dtype(const Settings& settings) {
  return settings.precision == name_of(DType::bfloat16) ? DType::bfloat16 : DType::float32;
}

Settings completed(Settings s) {
  const auto fill = [](auto& setting, auto value) {
    if (!setting) setting = value;
  };
  if (s.attention == "fastformer") {
    fill(s.fastformer_interaction, "product");
    fill(s.share, std::vector<std::string>{"query-value"});
    fill(s.columns, 3);
  }
  if (s.attention.starts_with("fastmax")) {
    const bool first_order = s.attention == "fastmax1";
    fill(s.fastmax_scale, first_order ? "unit" : "sqrt");
    fill(s.fastmax_form, "auto");
    if (s.attention_dropout > 0) {
      fill(s.dropout_kind, first_order ? "standard" : "quadratic");  // of which the first order has none
      fill(s.dropout_normaliser, "clean");
    }
  }
  return s;
}

std::vector<std::string> share_words() { return {"query-value", "layers", "heads", "none"}; }

bool shares(const Settings& settings, const std::string& what) {
  const std::optional<std::vector<std::string>> shared = completed(settings).share;
  return shared && std::ranges::find(*shared, what) != shared->end();
}

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

size_t mechanism_index(const std::string& attention) {
  const std::vector<std::string>& names = nn::attention_mechanisms();
  return static_cast<size_t>(std::ranges::find(names, attention) - names.begin());
}

void validate(const Settings& s) {
  // More than the most would be work without an end, or more memory than any machine has.
  const auto at_least = [](const char* flag, int64_t value, int64_t least, int64_t most = 1'000'000'000) {
    require(value >= least, fmt::format("--{} {}: must be at least {}", flag, value, least));
    require(value <= most, fmt::format("--{} {}: must be at most {}", flag, value, most));
  };
  const auto within = [](const char* flag, double value, double low, double high) {
    require(value >= low && value <= high, fmt::format("--{} {}: must lie from {} to {}", flag, value, low, high));
  };
  at_least("layers", s.layers, 1, 1000);
  at_least("heads", s.heads, 1);
  at_least("width", s.width, 1);
  require(s.feed_forward >= 1 && s.feed_forward <= 1000,
          fmt::format("feed_forward {}: must be from 1 to 1000", s.feed_forward));
  at_least("context", s.context, 1);
  at_least("patch", s.patch, 1);
  at_least("batch", s.batch, 1, 1'000'000);
  at_least("accumulate", s.accumulate, 1, 1'000'000);
  at_least("epochs", s.epochs, 0);
  at_least("steps", s.steps, s.epochs > 0 ? 0 : 1);
  at_least("warmup", s.warmup, 0);
  at_least("eval-every", s.eval_every, 1);
  at_least("eval-batches", s.eval_batches, 0, 1'000'000);
  at_least("checkpoint-every", s.checkpoint_every, 0);
  at_least("threads", s.threads, 0, 1024);
  within("dropout", s.dropout, 0, 0.99);
  within("attention-dropout", s.attention_dropout, 0, 0.99);
  within("lr", s.lr, 0, 1e3);
  within("min-lr", s.min_lr, 0, 1e3);
  require(s.min_lr <= s.lr, fmt::format("--min-lr {} is above --lr {}; lower it too", s.min_lr, s.lr));
  within("weight-decay", s.weight_decay, 0, 1e3);
  within("clip", s.clip, 0, 1e9);
  require(s.width % s.heads == 0, fmt::format("--width {} is not a multiple of --heads {}", s.width, s.heads));
  require(s.warmup == 0 || s.epochs > 0 || s.warmup < s.steps,
          fmt::format("--warmup {} leaves nothing of --steps {}; make it shorter", s.warmup, s.steps));
  require(!s.profile || s.epochs > 0 || s.steps >= 20,
          fmt::format("--profile times ten steps after ten others; --steps {} is too few", s.steps));
  at_least("short-conv", s.short_conv, 0, 1'000'000);
  validate_words(s);
  validate_fastformer(s);
  validate_fastmax(s);
  block_config(s);  // these three know every other word
  positions_of(s);
  device_of(s);
  require(s.positions != "sinusoidal" || s.width % 2 == 0,
          fmt::format("--positions sinusoidal has pairs of sine and cosine, and --width {} is odd; make it even",
                      s.width));
  require(s.positions != "rotary" || s.attention == "softmax" || s.attention == "fastmax2",
          fmt::format("--positions rotary does not apply to --attention {}", s.attention));
  require(
      s.positions != "rotary" || s.width / s.heads % 2 == 0,
      fmt::format("--positions rotary turns pairs of numbers, and --width {} / --heads {} is odd", s.width, s.heads));
}

std::string describe_model(const Settings& settings) {
  Settings published = preset(settings.task, settings.preset);
  published.attention = settings.attention;
  if (settings.steps > 0) published.warmup = std::min(published.warmup, settings.steps / 10);  // unless a flag said
  const nlohmann::json before = to_json(published), now = to_json(settings);
  constexpr std::array kNamedOrNoMatter{"steps",        "epochs",           "seed",       "device", "eval_every",
                                        "eval_batches", "checkpoint_every", "tensorboard"};
  std::string text = "preset " + settings.preset;
  for (const auto& [name, value] : now.items()) {
    if (value == before.value(name, nlohmann::json()) || std::ranges::count(kNamedOrNoMatter, name) > 0) continue;
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    text += fmt::format(", {} {}", words, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string length_of(const Settings& s) {
  if (s.epochs == 0) return fmt::format("{} steps", s.steps);
  return s.epochs == 1 ? "1 epoch" : fmt::format("{} epochs", s.epochs);
}

std::string describe(const Settings& s) { return describe_model(s) + ", " + length_of(s); }

nlohmann::json to_json(const Settings& settings) {
  const Settings all = completed(settings);
  nlohmann::json json;
  for_each_field(all, [&](const char* name, const auto& value) { json[name] = value; });
  for_each_optional(all, [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  });
  return json;
}

Settings settings_from_json(const nlohmann::json& json) {
  Settings settings;
  nlohmann::json unknown = json;
  settings.task = value_of<std::string>(json, "task");  // which all have had from the first
  settings.bytes = settings.task == "shakespeare";      // before there was a choice
  for_each_field(settings, [&](const char* name, auto& value) {
    if (unknown.erase(name) > 0) value = value_of<std::remove_cvref_t<decltype(value)>>(json, name);
  });
  for_each_optional(settings, [&](const char* name, auto& value) {
    using T = std::remove_cvref_t<decltype(*value)>;
    if (unknown.erase(name) > 0) value = value_of<T>(json, name);
  });
  forget_fastformer_defaults(settings);
  require(unknown.empty(), fmt::format("this version does not know the setting {}", unknown.dump()));
  return settings;
}

}  // namespace linnet::examples
