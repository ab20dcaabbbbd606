#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <linnet/core/files/json.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

#include "support/settings/program.h"
#include "support/settings/settings.h"
#include "support/settings/summaries.h"

/// Settings as config.json has them.

namespace linnet::examples {
namespace {

constexpr const char* kShare = "share";

/// Calls `field(name, member)` for every setting in config.json.
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
  field("shards", s.shards);
  field("reduce", s.reduce);
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
  const bool of_sequences = is_of(TaskKind::sequences, s), of_texts = is_of(TaskKind::labelled_texts, s);
  if (of_sequences || of_texts) {
    field("eps", s.eps);
    field("clip_value", s.clip_value);
    field("cycle_momentum", s.cycle_momentum);
    field("keep_best", s.keep_best);
    field("pool", s.lra.pool);
    field("stand_in", s.lra.stand_in);
    field("data_seed", s.lra.data_seed);
  }
  if (of_sequences) {
    field("black_is_padding", s.lra.black_is_padding);
    field("downsample", s.lra.downsample);
    field("min_tokens", s.lra.min_tokens);
    field("contour_length", s.lra.contour_length);
    field("distractors", s.lra.distractors);
  }
  if (of_texts) {
    field("format", s.texts.format);
    field("text_field", s.texts.text_field);
    field("label_field", s.texts.label_field);
    field("levels", s.texts.levels);
    field("vocabulary", s.texts.vocabulary);
    field("min_count", s.texts.min_count);
    field("glove", s.texts.glove);
    field("strict", s.texts.strict);
  }
  if (is_of(TaskKind::summaries, s)) for_each_summary_field(s, field);
  if (is_of(TaskKind::users, s)) {
    field("encoder", s.of_users.encoder);
    field("title_words", s.of_users.title_words);
    field("history", s.of_users.history);
    field("strict", s.of_users.strict);
    field("users", s.of_users.users);
    field("test_users", s.of_users.test_users);
    field("items", s.of_users.items);
    field("sharpness", s.of_users.sharpness);
    field("glove", s.texts.glove);
    field("data_seed", s.lra.data_seed);
  }
  field("eval_every", s.eval_every);
  field("eval_batches", s.eval_batches);
  field("checkpoint_every", s.checkpoint_every);
  field("tensorboard", s.tensorboard);
  field("seed", s.seed);
  field("device", s.device);
  field("precision", s.precision);
}

/// An option's value as JSON.
nlohmann::json option_to_json(const nn::AttentionOption* option, const std::string& value) {
  const bool is_number = option != nullptr && option->kind == nn::AttentionOption::Kind::integer;
  return is_number ? nlohmann::json::parse(value) : nlohmann::json(value);
}

/// The value of an option, which `json` has under `name`.
std::string option_from_json(const nn::AttentionOption& option, const nlohmann::json& json, const std::string& name) {
  const bool is_number = option.kind == nn::AttentionOption::Kind::integer;
  return is_number ? fmt::to_string(linnet::detail::value_of<int64_t>(json, name.c_str()))
                   : linnet::detail::value_of<std::string>(json, name.c_str());
}

/// Removes the default options of other mechanisms, which older versions wrote into every config.json.
void erase_defaults_of_others(Settings& s) {
  const nn::Mechanism& own = mechanism_of(s.attention);
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    for (const nn::AttentionOption& option : mechanism.option_list) {
      if (own.option(option.name) != nullptr) continue;
      const std::string value = option.get(mechanism.options);
      if (const auto held = s.options.find(option.name); held != s.options.end() && held->second == value) {
        s.options.erase(held);
      }
      if (option.name != kShare || !s.share) continue;
      std::erase(*s.share, value);
      if (s.share->empty()) s.share.reset();
    }
  }
}

}  // namespace

nlohmann::json to_json(const Settings& settings) {
  Settings all = completed(settings);
  if (std::string& glove = all.texts.glove; !glove.empty()) {  // so that the run can be resumed from any folder
    glove = std::filesystem::absolute(glove).lexically_normal().string();
  }
  nlohmann::json json;
  for_each_field(all, [&](const char* name, const auto& value) { json[name] = value; });
  for (const auto& [name, value] : all.options)
    json[name] = option_to_json(mechanism_of(all.attention).option(name), value);
  for (const auto& [part, mechanism] : further_mechanisms(all)) {
    if (mechanism == all.attention) continue;
    for (const auto& [name, value] : all.own_options.at(mechanism)) {
      json[part + "_" + name] = option_to_json(mechanism_of(mechanism).option(name), value);
    }
  }
  if (all.share) json[kShare] = *all.share;
  return json;
}

Settings settings_from_json(const nlohmann::json& json) {
  Settings settings;
  nlohmann::json unknown = json;
  settings.task = linnet::detail::value_of<std::string>(json, "task");  // required: every version has written it
  settings.bytes = settings.task == "shakespeare";                      // the default of files from before --bytes
  for_each_field(settings, [&](const char* name, auto& value) {
    if (unknown.erase(name) > 0) value = linnet::detail::value_of<std::remove_cvref_t<decltype(value)>>(json, name);
  });
  if (unknown.erase(kShare) > 0) settings.share = linnet::detail::value_of<std::vector<std::string>>(json, kShare);
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    for (const nn::AttentionOption& option : mechanism.option_list) {
      std::vector<std::string> names = option.older_names;
      names.push_back(option.name);
      for (const std::string& name : names) {
        if (unknown.erase(name) > 0) settings.options[option.name] = option_from_json(option, json, name);
      }
      for (const auto& [part, other] : further_mechanisms(settings)) {
        const std::string name = part + "_" + option.name;
        if (other != mechanism.name || unknown.erase(name) == 0) continue;
        settings.own_options[other][option.name] = option_from_json(option, json, name);
      }
    }
  }
  erase_defaults_of_others(settings);
  if (!unknown.empty()) throw UsageError(fmt::format("this version does not know the setting {}", unknown.dump()));
  return settings;
}

}  // namespace linnet::examples
