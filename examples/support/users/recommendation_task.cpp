#include "support/users/recommendation_task.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/files.h"
#include "support/format.h"
#include "support/settings/program.h"
#include "support/tasks/word_vectors.h"
#include "support/users/generated_clicks.h"
#include "support/users/mind.h"
#include "support/users/scores.h"

namespace linnet::examples {
namespace {

/// Throws as the constructor of RecommendationTask.
ClickSet clicks_for(const Settings& s) {
  check_options(s, s.of_users.title_words);
  check_options(s, s.of_users.history);
  ClickSet data = s.data.empty() ? generated_clicks(s) : load_mind(s);
  for (const auto* part : {&data.train, &data.dev}) {
    if (std::ranges::any_of(*part, has_both_kinds)) continue;
    throw IoError(fmt::format("{}: no impression of {} has both a clicked and an unclicked candidate", data.name,
                              part == &data.train ? "train" : "dev"));
  }
  const int64_t clicks = Clicks(data).size();
  if (s.batch <= clicks) return data;
  throw UsageError(
      fmt::format("--batch {}: there are {} clicks to learn from; lower it", s.batch, format_count(clicks)));
}

/// The cross entropy of each click among others of its impression, their sum and number.
struct LossOfClicks {
  double sum = 0, count = 0;

  void add(const Impression& impression, const std::vector<double>& scores, Draws& draws) {
    const KnownCandidates known = known_candidates(impression);
    for (const int32_t clicked : known.clicked) {
      const double score = scores[static_cast<size_t>(clicked)];
      double highest = score, exponentials = 0;
      const std::vector<int32_t> others = sample_others(known.others, Clicks::kOthers, draws);
      for (const int32_t other : others) highest = std::max(highest, scores[static_cast<size_t>(other)]);
      for (const int32_t other : others) exponentials += std::exp(scores[static_cast<size_t>(other)] - highest);
      sum += std::log(exponentials + std::exp(score - highest)) + highest - score;
      ++count;
    }
  }
};

std::vector<const Impression*> with_both_kinds(const std::vector<Impression>& impressions) {
  std::vector<const Impression*> kept;
  for (const Impression& impression : impressions) {
    if (has_both_kinds(impression)) kept.push_back(&impression);
  }
  return kept;
}

}  // namespace

RecommendationTask::RecommendationTask(const Settings& s)
    : settings_(s),
      data_(clicks_for(s)),
      tested_(with_both_kinds(data_.dev)),
      clicks_(data_),
      rng_(s.seed),
      model_(rng_, s, data_.vocabulary, false, data_.embeddings.defined() ? data_.embeddings.size(1) : 0),
      loader_(clicks_, {.batch = s.batch, .seed = s.seed, .drop_last = true}),
      words_per_batch_(words_per_batch(clicks_, {.batch = s.batch, .seed = s.seed, .drop_last = true})) {
  begin_with(data_.embeddings, model_.embeddings());
}

Task::Evaluation RecommendationTask::evaluate(int64_t batches) {
  const int64_t all = std::ssize(tested_), count = batches > 0 ? std::min(all, batches * settings_.batch) : all;
  std::vector<const Impression*> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(tested_[static_cast<size_t>(i * all / count)]);
  const auto scores = this->scores(data_.items, chosen);
  RankingMeasures measures;
  LossOfClicks loss;
  for (size_t i = 0; i < chosen.size(); ++i) {
    Draws draws(stream_key(settings_.seed, Stream::validate, static_cast<int64_t>(i)));
    loss.add(*chosen[i], scores[i], draws);
    measures.add(*chosen[i], scores[i]);
  }
  return {.loss = loss.sum / loss.count, .measures = measures.means()};
}

void RecommendationTask::write_predictions(const std::filesystem::path& path) {
  const bool generated = settings_.data.empty();
  const PredictedClicks read = generated ? PredictedClicks{} : load_mind_to_predict(settings_);
  const std::vector<Impression>& impressions = generated ? data_.dev : read.impressions;
  std::vector<const Impression*> all;
  for (const Impression& impression : impressions) all.push_back(&impression);
  const auto scores = this->scores(generated ? data_.items : read.items, all);
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    text += fmt::format("{} [{}]\n", all[i]->id, fmt::join(ranks(*all[i], scores[i]), ","));
  }
  replace_file(path, text);
}

Measures RecommendationTask::chance() const {
  RankingMeasures measures;
  for (size_t i = 0; i < tested_.size(); ++i) {
    Draws draws({settings_.seed, i});
    std::vector<double> scores(tested_[i]->candidates.size());
    std::ranges::generate(scores, [&] { return draws.uniform(); });
    measures.add(*tested_[i], scores);
  }
  return measures.means();
}

std::vector<std::vector<double>> RecommendationTask::scores(const Lists& items,
                                                            const std::vector<const Impression*>& impressions) {
  std::vector<UserAndCandidates> users;
  for (const Impression* impression : impressions) users.push_back({impression->history, impression->candidates});
  return scores_of(model_, items, users);
}

}  // namespace linnet::examples
