#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/settings/settings.h"

/// The names of runs in tables and pictures.

namespace linnet::examples {

int64_t shortened_warmup(const Settings& published, int64_t steps) {
  const bool fewer = steps > 0 && (published.steps == 0 || steps < published.steps);
  return fewer ? std::min(published.warmup, steps / 10) : published.warmup;
}

std::string describe_model(const Settings& settings) {
  Settings published = preset(settings.task, settings.preset);
  published.attention = settings.attention;
  published.warmup = shortened_warmup(published, settings.steps);  // as without --warmup
  const nlohmann::json parts = to_json(published), now = to_json(settings);
  published.summary.decoder_attention = settings.summary.decoder_attention;
  published.summary.cross = settings.summary.cross;
  nlohmann::json before = to_json(published);
  before.update(parts);  // names parts with another mechanism, and of its options those that flags set
  constexpr std::array kNamedOrNoMatter{"steps",        "epochs",           "seed",        "device", "eval_every",
                                        "eval_batches", "checkpoint_every", "tensorboard", "strict", "stand_in"};
  std::string text = "preset " + settings.preset;
  for (const auto& [name, value] : now.items()) {
    const bool chooses = settings.keep_best && name.starts_with("eval_");  // among which weights to choose
    if (value == before.value(name, nlohmann::json())) continue;
    if (!chooses && std::ranges::count(kNamedOrNoMatter, name) > 0) continue;
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    text += fmt::format(", {} {}", words, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string row_name(const Settings& settings) {
  const std::string& encoder = settings.of_users.encoder;
  return encoder == UserSettings{}.encoder ? settings.attention : encoder;
}

std::string length_of(const Settings& s) {
  if (s.epochs == 0) return fmt::format("{} steps", s.steps);
  return s.epochs == 1 ? "1 epoch" : fmt::format("{} epochs", s.epochs);
}

std::string describe(const Settings& s) { return describe_model(s) + ", " + length_of(s); }

}  // namespace linnet::examples
