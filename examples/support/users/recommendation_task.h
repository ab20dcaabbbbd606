#pragma once

#include <filesystem>
#include <vector>

#include "support/tasks/task.h"
#include "support/users/clicks.h"
#include "support/users/two_level_model.h"

namespace linnet::examples {

/// Recommendation (Wu et al. 2021, section 4.1): ranks news by what a user clicked before. Its loss is the cross
/// entropy of each click among Clicks::kOthers others.
class RecommendationTask : public Task {
 public:
  /// Throws: as load_mind; IoError if no impression has candidates of both kinds; UsageError for a batch with more
  /// clicks than there are, and for options that the mechanism refuses.
  explicit RecommendationTask(const Settings& settings);

  nn::Module& model() override { return model_; }
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(model_(batch), batch.targets); }
  /// Evaluates on dev impressions, as many as `batches` batches have, taken at equal distances. The unclicked
  /// candidates are drawn, but are the same ones each time.
  Evaluation evaluate(int64_t batches) override;
  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return words_per_batch_; }
  std::vector<int64_t> lengths() const override {
    return {settings_.of_users.title_words, settings_.of_users.history};
  }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

  /// Writes the ranks of the candidates of test/, or else of dev, as MIND's leaderboard takes them: a line such as
  /// "12 [2,1,3]" for each impression, with its id.
  void write_predictions(const std::filesystem::path& path);

  /// The metrics of random scores.
  Measures chance() const;

 private:
  std::vector<std::vector<double>> scores(const Lists& items, const std::vector<const Impression*>& impressions);

  Settings settings_;
  ClickSet data_;
  std::vector<const Impression*> tested_;  // of dev, those with candidates of both kinds
  Clicks clicks_;
  Generator rng_;
  TwoLevelModel model_;
  nn::Loader loader_;
  int64_t words_per_batch_;
};

}  // namespace linnet::examples
