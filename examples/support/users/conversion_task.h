#pragma once

#include <optional>
#include <vector>

#include "support/tasks/task.h"
#include "support/users/conversions.h"
#include "support/users/two_level_model.h"

namespace linnet::examples {

/// The users of one part as examples: the ad is the only candidate, and the target is the label.
class ConversionUsers : public nn::Dataset {
 public:
  /// Both must outlive it.
  ConversionUsers(const Lists& items, const std::vector<Conversion>& users) : items_(items), users_(users) {}

  int64_t size() const override { return std::ssize(users_); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  const Lists& items_;
  const std::vector<Conversion>& users_;
};

/// Conversion (Wu et al. 2021, section 4.6): predicts whether a click on an ad leads to a conversion, from what the
/// user did before. Its loss is the log loss.
class ConversionTask : public Task {
 public:
  /// The time that a model takes for one user, in milliseconds.
  struct Latency {
    double median = 0, percentile_99 = 0;
  };

  /// Throws: as load_conversions; UsageError for a batch with more users than there are, and for options that the
  /// mechanism refuses.
  explicit ConversionTask(const Settings& settings);

  nn::Module& model() override { return model_; }
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override {
    return binary_cross_entropy_with_logits(model_(batch).squeeze(-1), batch.targets);
  }
  /// Evaluates on dev users, as many as `batches` batches have, taken at equal distances.
  Evaluation evaluate(int64_t batches) override;
  Evaluation test() override { return evaluate(data_.test, 0); }
  std::string test_data() const override { return "test data"; }
  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return words_per_batch_; }
  std::vector<int64_t> lengths() const override {
    return {settings_.of_users.title_words, settings_.of_users.history};
  }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

  /// The AUC, on the test data, of the true probabilities, from which the labels were drawn. No model can be expected
  /// to surpass it. Nothing if the probabilities are not known.
  std::optional<double> best_auc() const;
  /// Measures 200 users one by one, from words to score, after 20 others as a warm-up.
  Latency latency();

 private:
  Evaluation evaluate(const std::vector<Conversion>& users, int64_t batches);

  Settings settings_;
  ConversionSet data_;
  ConversionUsers train_;
  Generator rng_;
  TwoLevelModel model_;
  nn::Loader loader_;
  int64_t words_per_batch_;
};

}  // namespace linnet::examples
