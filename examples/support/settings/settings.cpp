#include "support/settings/settings.h"

#include <algorithm>
#include <any>
#include <bit>
#include <functional>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/core/error.h>
#include <linnet/nn/attention/mechanism.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/settings/choices.h"
#include "support/settings/program.h"
#include "support/settings/summaries.h"
#include "support/texts/formats.h"

namespace linnet::examples {
namespace {

void require(bool ok, const std::string& message) {
  if (!ok) throw UsageError(message);
}

const std::string kShare = "share", kLayers = "layers", kNone = "none";

/// Whether a word of `share` is a mechanism's own: all words are, except `layers` and `none`.
bool is_of_mechanism(const std::string& word) { return word != kLayers && word != kNone; }

/// The words in `share` that the mechanism knows, in the order of share_words().
std::vector<std::string> shared_by_mechanism(const std::vector<std::string>& share) {
  std::vector<std::string> words = share;
  std::erase_if(words, std::not_fn(is_of_mechanism));
  const std::vector<std::string> known = share_words();
  std::ranges::stable_sort(words, {}, [&](const std::string& word) { return std::ranges::find(known, word); });
  return words;
}

/// The mechanism's options that presets and the command line set, including `share`.
std::map<std::string, std::string> given_options(const Settings& s) {
  std::map<std::string, std::string> given = s.options;
  if (const auto own = s.own_options.find(s.attention); own != s.own_options.end()) {
    for (const auto& [name, value] : own->second) given[name] = value;
  }
  if (!s.share) return given;
  const std::vector<std::string> words = shared_by_mechanism(*s.share);
  const bool has_share = mechanism_of(s.attention).option(kShare) != nullptr;
  if (has_share || !words.empty()) given[kShare] = words.empty() ? kNone : fmt::format("{}", fmt::join(words, ","));
  return given;
}

/// settings.share, or the mechanism's default.
std::optional<std::vector<std::string>> share_of(const Settings& s) {
  const nn::Mechanism& mechanism = mechanism_of(s.attention);
  const nn::AttentionOption* const option = mechanism.option(kShare);
  if (s.share || option == nullptr) return s.share;
  return CLI::detail::split(option->get(mechanism.options), ',');
}

/// Removes from `share` what a mechanism without such an option does not have; to it, `none` says nothing.
void keep_layers(std::optional<std::vector<std::string>>& share) {
  if (!share) return;
  std::erase_if(*share, [](const std::string& word) { return word != kLayers; });
  if (share->empty()) share.reset();
}

/// Checks how a batch is divided. check_ranks checks that the ranks divide its shards evenly.
void validate_shards(const Settings& s) {
  require(s.reduce == "in-order" || s.reduce == "any-order",
          fmt::format("--reduce {}: must be in-order or any-order", s.reduce));
  require(s.shards >= 1, fmt::format("--shards {}: must be at least 1", s.shards));
  require(s.shards == 1 || !is_of(TaskKind::users, s),
          fmt::format("--shards {} does not apply to --task {}, whose batches have each text once for all users",
                      s.shards, s.task));
  require(s.reduce == "any-order" || std::has_single_bit(static_cast<uint64_t>(s.shards)),
          fmt::format("--shards {}: must be 1, 2, 4, 8, …, which a tree can add", s.shards));
  if (s.batch % s.shards == 0) return;
  throw UsageError(fmt::format("--shards {}: does not divide --batch {}; take --batch {}", s.shards, s.batch,
                               (s.batch / s.shards + 1) * s.shards));
}

/// Checks the words that no table in choices.h holds. Flags check them too, but config.json may hold anything.
void validate_words(const Settings& s) {
  const auto one_of = [](const char* flag, const std::string& word, const std::vector<std::string>& known) {
    require(std::ranges::find(known, word) != known.end(),
            fmt::format("--{} {}: must be one of {}", flag, word, fmt::join(known, ", ")));
  };
  one_of("task", s.task, task_names());
  one_of("schedule", s.schedule, {"cosine", "one-cycle", "one-cycle-linear"});
  one_of("format", s.texts.format, text_format_names());
  const std::vector<std::string> share = s.share.value_or(std::vector<std::string>{});
  for (const std::string& word : share) one_of("share", word, share_words());
  require(share.size() == 1 || !shares(s, "none"),
          fmt::format("--share {}: none cannot be combined with others", fmt::join(share, ",")));
}

/// TextLevels::sentence reads a fixed number of sentences and words, and has only additive pooling.
void validate_levels(const Settings& s) {
  if (levels_of(s) == TextLevels::word) return;
  require(s.context == preset(s.task, s.preset).context,
          fmt::format("--context {} does not apply to --levels sentence, which reads the first {} words of the first "
                      "{} sentences; leave it out",
                      s.context, kMostSentenceWords, kMostSentences));
  require(
      pool_of(s) == nn::Pooling::attention,
      fmt::format("--pool {} does not apply to --levels sentence, which takes additive; leave it out", s.lra.pool));
  require(
      s.shards == 1,
      fmt::format("--shards {} does not apply to --levels sentence, whose batches have the sentences of all texts "
                  "one after another; leave it out",
                  s.shards));
}

}  // namespace

const nn::Mechanism& mechanism_of(const std::string& attention) {
  const std::vector<std::string> known = nn::attention_mechanisms();
  require(std::ranges::find(known, attention) != known.end(),
          fmt::format("--attention {}: must be one of {}", attention, fmt::join(known, ", ")));
  return nn::find_mechanism(attention);
}

std::vector<std::pair<std::string, std::string>> further_mechanisms(const Settings& s) {
  if (!is_of(TaskKind::summaries, s)) return {};
  return {{"decoder", s.summary.decoder_attention}, {"cross", s.summary.cross}};
}

bool has_option(const Settings& s, const std::string& option) {
  const auto has = [&](const std::string& mechanism) { return mechanism_of(mechanism).option(option) != nullptr; };
  return has(s.attention) || std::ranges::any_of(std::views::values(further_mechanisms(s)), has);
}

bool is_of(TaskKind kind, const Settings& s) {
  const std::vector<std::string> names = task_names(kind);
  return std::ranges::find(names, s.task) != names.end();
}

Device device_of(const Settings& settings) { return choose(kDevices, "device", settings.device); }

DType model_dtype(const Settings& settings) {
  return settings.precision == name_of(DType::bfloat16) ? DType::bfloat16 : DType::float32;
}

std::string flag_of(std::string option) {
  std::ranges::replace(option, '_', '-');
  return "--" + option;
}

std::map<std::string, std::string> all_options(const Settings& s) {
  const nn::Mechanism& mechanism = mechanism_of(s.attention);
  const std::map<std::string, std::string> given = given_options(s);
  std::map<std::string, std::string> all;
  for (const nn::AttentionOption& option : mechanism.option_list) {
    if (option.of_dropout && s.attention_dropout == 0) continue;
    const auto value = given.find(option.name);
    all[option.name] = value != given.end() ? value->second : option.get(mechanism.options);
  }
  return all;
}

std::any attention_options(const Settings& s) {
  const nn::Mechanism& mechanism = mechanism_of(s.attention);
  std::any options = mechanism.options;
  for (const auto& [name, value] : given_options(s)) {
    const nn::AttentionOption* const option = mechanism.option(name);
    if (option == nullptr && has_option(s, name)) continue;  // a further mechanism's
    if (option == nullptr) {
      throw UsageError(fmt::format("{} {} does not apply to --attention {}", flag_of(name), value, s.attention));
    }
    if (option->of_dropout && s.attention_dropout == 0) {
      throw UsageError(fmt::format("{} does not apply to --attention-dropout 0; give it a rate", flag_of(name)));
    }
    try {
      option->set(options, value);
    } catch (const ValueError& error) {
      throw UsageError(fmt::format("{} {}: {}", flag_of(name), value, error.what()));
    }
  }
  return options;
}

nn::Pooling pool_of(const Settings& s) { return choose(kPools, "pool", s.lra.pool); }

TextLevels levels_of(const Settings& s) { return choose(kLevels, "levels", s.texts.levels); }

UserEncoder user_encoder_of(const Settings& s) { return choose(kUserEncoders, "encoder", s.of_users.encoder); }

nn::Positions positions_of(const Settings& s) { return choose(kPositions, "positions", s.positions); }

nn::BlockConfig block_config(const Settings& s) {
  return {.attention = {.mechanism = s.attention,
                        .width = s.width,
                        .heads = s.heads,
                        .bias = s.bias,
                        .dropout = s.attention_dropout,
                        .short_conv = s.short_conv,
                        .options = attention_options(s)},
          .hidden = s.feed_forward * s.width,
          .dropout = s.dropout,
          .activation_dropout = is_of(TaskKind::sequences, s) ? s.dropout : 0};
}

void check_options(const Settings& s, int64_t max_tokens, std::string_view flag) {
  nn::AttentionConfig config = block_config(s).attention;
  config.max_tokens = max_tokens;
  const nn::Mechanism& mechanism = mechanism_of(s.attention);
  const auto refusal = mechanism.refusal ? mechanism.refusal(config) : std::nullopt;
  if (!refusal) return;
  const std::map<std::string, std::string> options = all_options(s);
  const auto own = options.find(refusal->option);  // or a setting of all mechanisms, such as short_conv
  throw UsageError(fmt::format("{} {} does not apply to {} {}, {}", flag_of(refusal->option),
                               own != options.end() ? own->second : to_json(s).at(refusal->option).dump(), flag,
                               s.attention, refusal->why));
}

Settings settings_of(const std::string& mechanism, Settings s) {
  s.attention = mechanism;
  std::erase_if(s.options, [&](const auto& option) { return !has_option(s, option.first); });
  if (!has_option(s, kShare)) keep_layers(s.share);
  return s;
}

void check_options_apply(const Settings& s, std::string_view flag, const std::vector<std::string>& mechanisms) {
  std::map<std::string, std::string> given = s.options;
  for (const auto& option : preset(s.task, s.preset).options) {
    if (given.contains(option.first) && given[option.first] == option.second) given.erase(option.first);
  }
  if (s.share && !shared_by_mechanism(*s.share).empty()) given[kShare] = fmt::format("{}", fmt::join(*s.share, ","));
  for (const auto& [name, value] : given) {
    const auto has = [&](const std::string& mechanism) { return has_option(settings_of(mechanism, s), name); };
    require(std::ranges::any_of(mechanisms, has),
            fmt::format("{} {} applies to none of {} {}", flag_of(name), value, flag, fmt::join(mechanisms, ",")));
  }
}

Settings completed(Settings s) {
  const nn::Mechanism& mechanism = mechanism_of(s.attention);
  const Settings given = s;
  for (const auto& [name, value] : all_options(given)) {
    if (name != kShare) s.options[name] = value;
  }
  s.share = share_of(given);
  const auto further = further_mechanisms(s);
  if (further.empty()) return s;
  for (const std::string& other : std::views::values(further)) {
    if (other != s.attention) s.own_options[other] = all_options(settings_of(other, given));
  }
  std::erase_if(s.options, [&](const auto& option) {
    return mechanism.option(option.first) == nullptr && has_option(s, option.first);
  });
  if (mechanism.option(kShare) == nullptr) keep_layers(s.share);
  return s;
}

std::vector<std::string> share_words() {
  std::vector<std::string> words{kLayers};
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    if (const auto* option = mechanism.option(kShare)) {
      words.insert(words.end(), option->words.begin(), option->words.end());
    }
  }
  words.push_back(kNone);
  return words;
}

bool shares(const Settings& settings, const std::string& what) {
  const std::optional<std::vector<std::string>> shared = share_of(settings);
  return shared && std::ranges::find(*shared, what) != shared->end();
}

std::vector<std::string> option_words(const std::string& attention, const std::string& option) {
  return nn::find_mechanism(attention).option(option)->words;
}

size_t mechanism_index(const std::string& attention) {
  const std::vector<std::string>& names = nn::attention_mechanisms();
  return static_cast<size_t>(std::ranges::find(names, attention) - names.begin());
}

void validate(const Settings& s) {
  // Larger values would take forever, or more memory than any machine has.
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
  validate_shards(s);
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
  within("clip_value", s.clip_value, 0, 1e9);
  within("eps", s.eps, 0, 1);
  at_least("downsample", s.lra.downsample, 1, 1000);
  at_least("min-tokens", s.lra.min_tokens, 1);
  at_least("contour-length", s.lra.contour_length, 2, 100);
  at_least("distractors", s.lra.distractors, 0, 100);
  at_least("vocabulary", s.texts.vocabulary, 1);
  at_least("min-count", s.texts.min_count, 1);
  const bool has_heads = !is_of(TaskKind::users, s) || user_encoder_of(s) != UserEncoder::mean;
  require(!has_heads || s.width % s.heads == 0,
          fmt::format("--width {} is not a multiple of --heads {}", s.width, s.heads));
  require(s.warmup == 0 || s.epochs > 0 || s.warmup < s.steps,
          fmt::format("--warmup {} leaves nothing of --steps {}; make it shorter", s.warmup, s.steps));
  require(!s.profile || s.epochs > 0 || s.steps >= 20,
          fmt::format("--profile times ten steps after ten others; --steps {} is too few", s.steps));
  at_least("title-words", s.of_users.title_words, 1, 10'000);
  at_least("history", s.of_users.history, 1, 10'000);
  at_least("users", s.of_users.users, 1, 1'000'000);
  at_least("test-users", s.of_users.test_users, 1, 1'000'000);
  at_least("items", s.of_users.items, 100, 1'000'000);
  within("sharpness", s.of_users.sharpness, 0, 1e3);
  at_least("short-conv", s.short_conv, 0, 1'000'000);
  validate_words(s);
  if (kind_of(s.task) == TaskKind::summaries) validate_summaries(s);
  check_options(s);  // this, positions_of and device_of check all other words
  if (kind_of(s.task) == TaskKind::text) require_causal("--attention", s.attention);
  positions_of(s);
  pool_of(s);
  validate_levels(s);
  user_encoder_of(s);
  require(s.texts.glove.empty() || !is_of(TaskKind::users, s) || !s.data.empty(),
          fmt::format("--glove {} does not apply to generated clicks, which have no words; name MIND's folder with "
                      "--data",
                      s.texts.glove));
  require(row_name(s) == s.attention || s.attention == Settings{}.attention,
          fmt::format("--encoder {} does not apply to --attention {}; leave one of them out", s.of_users.encoder,
                      s.attention));
  device_of(s);
  require(s.positions != "sinusoidal" || s.width % 2 == 0,
          fmt::format("--positions sinusoidal has pairs of sine and cosine, and --width {} is odd; make it even",
                      s.width));
  require(s.positions != "rotary" || mechanism_of(s.attention).rotary,
          fmt::format("--positions rotary does not apply to --attention {}", s.attention));
  require(
      s.positions != "rotary" || s.width / s.heads % 2 == 0,
      fmt::format("--positions rotary turns pairs of numbers, and --width {} / --heads {} is odd", s.width, s.heads));
}

}  // namespace linnet::examples
