#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/summaries/dataset.h"
#include "support/summaries/load.h"
#include "support/tasks/task.h"

namespace linnet::examples {

/// A writer of summaries and its articles. During training it is evaluated by its next tokens: their loss, and how
/// many of them are right. At the end it writes the summaries of the test articles by beam search. They are rated by
/// ROUGE, and in the generated tasks by how many are entirely right.
class SummaryTask : public Task {
 public:
  /// Throws: as load_articles; UsageError for fewer articles than a batch has.
  explicit SummaryTask(const Settings& settings);

  nn::Module& model() override { return model_; }
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override;
  Evaluation evaluate(int64_t batches) override { return evaluate(dev_, batches); }
  Evaluation test() override;
  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return settings_.batch * train_.tokens() / train_.size(); }
  std::vector<int64_t> lengths() const override { return {settings_.context}; }
  std::string data_name() const override { return articles_.name; }
  /// The first articles of the test with their summaries, which `test` has written.
  std::string sample(int64_t tokens) override;

  /// The summaries of the articles, by beam search.
  std::vector<std::string> write(const SummaryDataset& data);

 private:
  Evaluation evaluate(const SummaryDataset& data, int64_t batches);
  Measures measures_of(const std::vector<std::string>& summaries) const;

  Settings settings_;
  ArticleParts articles_;
  std::unique_ptr<nn::Tokenizer> tokenizer_;
  SummaryIds ids_;
  SummaryDataset train_, dev_, test_;
  Generator rng_;
  nn::EncoderDecoder model_;
  nn::Loader loader_;
  std::vector<std::string> written_;  // of the test
};

/// The config of the model, for `vocabulary` ids.
nn::EncoderDecoderConfig summary_model_config(const Settings& settings, int64_t vocabulary);

/// The first `count` sentences of a text, each on its own line: a baseline. A sentence ends at a full stop, a
/// question or exclamation mark before a blank, and at the end of a line.
std::string first_sentences(std::string_view text, int64_t count);

}  // namespace linnet::examples
