#include "support/task.h"

#include <cmath>

#include <fmt/format.h>

#include "support/choices.h"

namespace linnet::examples {
namespace {

std::variant<FastmaxScale, double> parse_scale(const std::string& text) {
  for (const auto& [word, scale] : kScales) {
    if (word == text) return scale;
  }
  double number = 0;
  if (!CLI::detail::lexical_cast(text, number) || !(number > 0) || std::isinf(number)) {
    throw UsageError(
        fmt::format("--fastmax-scale {}: must be {} or a positive number", text, fmt::join(words(kScales), ", ")));
  }
  return number;
}

}  // namespace

std::unique_ptr<Task> make_task(const Settings& settings) {
  return settings.task == "mnist" ? make_image_task(settings) : make_text_task(settings);
}

nn::Positions positions_of(const Settings& s) { return choose(kPositions, "positions", s.positions); }

nn::BlockConfig block_config(const Settings& settings) {
  const Settings s = completed(settings);
  nn::BlockConfig config{.attention = {.mechanism = s.attention, .width = s.width, .heads = s.heads, .bias = s.bias},
                         .hidden = s.feed_forward * s.width,
                         .dropout = s.dropout};
  nn::AttentionConfig& attention = config.attention;
  attention.dropout = s.attention_dropout;
  attention.short_conv = s.short_conv;
  if (s.attention == "fastformer") {
    attention.interaction = choose(kInteractions, "fastformer-interaction", *s.fastformer_interaction);
    attention.share_query_value = shares(s, "query-value");
    attention.share_heads = shares(s, "heads");
    attention.columns = *s.columns;
  }
  if (s.fastmax_scale) attention.fastmax_scale = parse_scale(*s.fastmax_scale);
  if (s.fastmax_form) attention.fastmax_form = choose(kForms, "fastmax-form", *s.fastmax_form);
  if (s.dropout_kind) attention.dropout_kind = choose(kDropoutKinds, "dropout-kind", *s.dropout_kind);
  if (s.dropout_normaliser) {
    attention.dropout_normaliser = choose(kNormalisers, "dropout-normaliser", *s.dropout_normaliser);
  }
  return config;
}

}  // namespace linnet::examples
