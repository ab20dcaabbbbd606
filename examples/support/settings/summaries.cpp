#include "support/settings/summaries.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/nn/attention/mechanism.h>
#include <CLI/CLI.hpp>

#include "support/settings/program.h"

namespace linnet::examples {
namespace {

bool is_generated(const Settings& s) { return s.task == "sort" || s.task == "copy"; }

/// Wu et al. 2021, table 9, with the warm-up, clipping and dropout of its text. Softmax attention sees 512 tokens
/// there.
Settings published(const std::string& task, int64_t layers, int64_t context, int64_t target_tokens, int64_t epochs) {
  Settings s;
  s.task = task;
  s.preset = "summarise-" + task;
  s.layers = layers;
  s.heads = 16;
  s.width = 256;
  s.feed_forward = 1;
  s.bias = true;
  s.dropout = 0.2;
  s.context = context;
  s.batch = 32;
  s.steps = 0;
  s.epochs = epochs;
  s.lr = s.min_lr = 1e-4;  // constant after the warm-up
  s.warmup = 1000;
  s.beta2 = 0.999;
  s.weight_decay = 0;
  s.decay_matrices_only = false;
  s.keep_best = true;
  s.eval_every = 2000;
  s.eval_batches = 100;
  s.checkpoint_every = 2000;
  s.summary.decoder_layers = 4;
  s.summary.target_tokens = target_tokens;
  s.options = {
      {"window", "64"}, {"global_tokens", "64"}, {"block", "32"}, {"random_blocks", "2"}, {"linformer_rank", "64"}};
  s.own_options = {{"poolingformer", {{"window", "256"}, {"window2", "512"}}}};
  return s;
}

/// The same with articles of 512 tokens, for softmax attention.
Settings short_articles(Settings s) {
  s.preset += "-512";
  s.context = 512;
  return s;
}

/// A small model for the generated letters.
Settings of_letters(const std::string& task) {
  Settings s;
  s.task = task;
  s.preset = "summarise-" + task;
  s.layers = 2;
  s.width = 64;
  s.feed_forward = 2;
  s.bias = true;
  s.context = 20;
  s.batch = 64;
  s.steps = 1500;
  s.lr = 2e-3;
  s.min_lr = 1e-4;
  s.warmup = 150;
  s.beta2 = 0.999;
  s.weight_decay = 0.01;
  s.keep_best = true;
  s.eval_every = 250;
  s.eval_batches = 0;
  s.summary.decoder_layers = 2;
  s.summary.target_tokens = 10;
  s.summary.beam = 4;
  s.summary.no_repeat = 0;
  return s;
}

}  // namespace

void validate_summaries(const Settings& s) {
  const auto require = [](bool ok, const std::string& message) {
    if (!ok) throw UsageError(message);
  };
  const auto within = [&](const char* flag, int64_t value, int64_t least, int64_t most) {
    require(value >= least && value <= most,
            fmt::format("--{} {}: must lie from {} to {}", flag, value, least, most));
  };
  const SummarySettings& summary = s.summary;
  within("vocabulary", summary.vocabulary, 300, 1'000'000);
  within("target-tokens", summary.target_tokens, 2, 1'000'000);
  within("decoder-layers", summary.decoder_layers, 1, 1000);
  within("beam", summary.beam, 1, 1000);
  within("max-length", summary.max_length, 0, summary.target_tokens);
  within("min-length", summary.min_length, 0, summary.max_length == 0 ? summary.target_tokens : summary.max_length);
  within("no-repeat", summary.no_repeat, 0, 1000);
  require(summary.alpha >= 0 && summary.alpha <= 100,
          fmt::format("--alpha {}: must lie from 0 to 100", summary.alpha));
  require(summary.label_smoothing >= 0 && summary.label_smoothing < 1,
          fmt::format("--label-smoothing {}: must be from 0 to less than 1", summary.label_smoothing));
  const std::vector<std::string> known = nn::attention_mechanisms(), cross = nn::cross_mechanisms();
  require(
      std::ranges::find(known, summary.decoder_attention) != known.end(),
      fmt::format("--decoder-attention {}: must be one of {}", summary.decoder_attention, fmt::join(known, ", ")));
  require_causal("--decoder-attention", summary.decoder_attention);
  require(s.positions != "rotary" || nn::find_mechanism(summary.decoder_attention).rotary,
          fmt::format("--positions rotary does not apply to --decoder-attention {}", summary.decoder_attention));
  require(std::ranges::find(cross, summary.cross) != cross.end(),
          fmt::format("--cross {}: must be one of {}, which have cross-attention", summary.cross,
                      fmt::join(cross, ", ")));
  check_options(settings_of(summary.decoder_attention, s), summary.target_tokens, "--decoder-attention");
  check_options(settings_of(summary.cross, s), s.context, "--cross");
}

void add_article_flags(CLI::App& app, Settings& s) {
  app.add_option("--context", s.context, "tokens of the longest article; the rest of it is cut")
      ->check(whole_number(1));
  app.add_option("--target-tokens", s.summary.target_tokens, "tokens of the longest summary; the rest of it is cut")
      ->check(whole_number(2));
  app.add_option("--data-seed", s.lra.data_seed,
                 "seed of generated articles, and of the division into parts if the data have none")
      ->check(whole_number(0));
  if (is_generated(s)) return;
  app.add_option(
         "--data", s.data,
         fmt::format("a file with one article per line (JSON), a folder with train, val and test, or a folder of "
                     "*.story files (default: the first of {} that has the set)",
                     data_places()))
      ->check(path());
  app.add_option("--vocabulary", s.summary.vocabulary, "most tokens of the byte-pair vocabulary")
      ->check(whole_number(300));
  app.add_flag("--strict", s.summary.strict, "a malformed article is an error, and is not skipped");
  app.add_flag("--stand-in", s.lra.stand_in, "use letters to sort, and say so, if the public set is absent");
}

void add_summary_flags(CLI::App& app, Settings& s) {
  app.add_option("--decoder-layers", s.summary.decoder_layers, "blocks of the decoder")->check(whole_number(1));
  app.add_option("--decoder-attention", s.summary.decoder_attention, "the mechanism of the decoder's self-attention")
      ->check(CLI::IsMember(nn::attention_mechanisms()));
  app.add_option("--cross", s.summary.cross, "the mechanism of the decoder's attention to the article")
      ->check(CLI::IsMember(nn::cross_mechanisms()));
  app.add_option("--label-smoothing", s.summary.label_smoothing,
                 "share of the target that is spread over all tokens");
  app.add_option("--beam", s.summary.beam, "beams: summaries that are extended at the same time")
      ->check(whole_number(1));
  app.add_option("--alpha", s.summary.alpha, "exponent of the length penalty; higher values favour longer summaries");
  app.add_option("--min-length", s.summary.min_length, "tokens of the shortest summary, its end included")
      ->check(whole_number(0));
  app.add_option("--max-length", s.summary.max_length, "tokens of the longest summary; 0 for --target-tokens")
      ->check(whole_number(0));
  app.add_option("--no-repeat", s.summary.no_repeat, "no sequence of this many tokens occurs twice; 0 for no limit")
      ->check(whole_number(0));
}

std::vector<Settings> summary_presets() {
  const Settings news = published("cnn-dailymail", 4, 2048, 256, 12), papers = published("pubmed", 2, 4096, 512, 15);
  return {news, short_articles(news), papers, short_articles(papers), of_letters("sort"), of_letters("copy")};
}

}  // namespace linnet::examples
