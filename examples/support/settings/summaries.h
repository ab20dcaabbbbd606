#pragma once

#include <vector>

#include "support/settings/settings.h"

/// The settings of summarisation: config.json, flags and presets.

namespace CLI {
class App;
}  // namespace CLI

namespace linnet::examples {

/// Calls `field(name, member)` for the settings in config.json that only some tasks have.
template <class S, class Field>
void for_each_summary_field(S& s, Field&& field) {
  field("eps", s.eps);
  field("keep_best", s.keep_best);
  field("stand_in", s.lra.stand_in);
  field("data_seed", s.lra.data_seed);
  field("strict", s.summary.strict);
  field("vocabulary", s.summary.vocabulary);
  field("target_tokens", s.summary.target_tokens);
  field("decoder_layers", s.summary.decoder_layers);
  field("decoder_attention", s.summary.decoder_attention);
  field("cross", s.summary.cross);
  field("label_smoothing", s.summary.label_smoothing);
  field("beam", s.summary.beam);
  field("alpha", s.summary.alpha);
  field("min_length", s.summary.min_length);
  field("max_length", s.summary.max_length);
  field("no_repeat", s.summary.no_repeat);
}

/// Throws UsageError for settings out of range, and for mechanisms that the decoder cannot use.
void validate_summaries(const Settings& settings);

/// Adds --data and the flags that say how articles are read.
void add_article_flags(CLI::App& app, Settings& settings);
/// Adds the flags of the model's decoder and of beam search.
void add_summary_flags(CLI::App& app, Settings& settings);

/// The presets of all tasks of summarisation.
std::vector<Settings> summary_presets();

}  // namespace linnet::examples
