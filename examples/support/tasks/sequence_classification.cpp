#include "support/tasks/sequence_classification.h"

#include <utility>

#include <fmt/format.h>

#include "support/format.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

class SequenceClassification : public Task {
 public:
  SequenceClassification(const Settings& s, ClassifierData data, ClassifierOptions options)
      : settings_(s),
        data_(std::move(data)),
        options_(std::move(options)),
        rng_(s.seed),
        model_(rng_, options_.model, model_dtype(s), device_of(s)),
        loader_(*data_.train.data,
                {.batch = s.batch, .seed = s.seed, .drop_last = true, .lengths = data_.train.lengths}) {
    if (!options_.embeddings.defined()) return;
    const NoGrad no_grad;
    Tensor embeddings = model_.embeddings();
    embeddings.copy_(options_.embeddings);
  }

  nn::Module& model() override { return model_; }
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(logits(batch), batch.targets); }

  Evaluation evaluate(int64_t batches) override { return evaluate(data_.dev, batches); }
  Evaluation test() override { return evaluate(data_.test, 0); }

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return settings_.batch * options_.tokens_per_example; }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

 private:
  Tensor logits(const nn::Batch& batch) const {
    const std::vector<Tensor>& others = batch.others;
    if (others.size() == 1) return model_(batch.inputs, others[0]);
    return model_(batch.inputs, others[0], others[1], others[2]);
  }

  /// The loss and the metrics of the first `batches` batches, in an order that is always the same; 0 for all.
  Evaluation evaluate(const SequencePart& part, int64_t batches) {
    const NoGrad no_grad;
    model_.eval();
    nn::Loader loader(*part.data, {.batch = settings_.batch, .device = model_.device(), .lengths = part.lengths});
    double loss = 0, correct = 0, examples = 0;
    std::vector<Tensor> all_logits, all_targets;
    for (const nn::Batch& batch : loader) {
      const Tensor scores = logits(batch);
      const auto size = static_cast<double>(batch.targets.size(0));
      loss += cross_entropy(scores, batch.targets).item<double>() * size;
      correct += accuracy(scores, batch.targets) * size;
      examples += size;
      if (options_.macro_f) {
        all_logits.push_back(scores);
        all_targets.push_back(batch.targets);
      }
      if (batches > 0 && loader.position().batch == batches) break;
    }
    model_.train();
    Evaluation evaluation{.loss = loss / examples, .accuracy = correct / examples};
    if (options_.macro_f) {
      evaluation.measures = {{kMacroF, nn::macro_f1(concat(all_logits, 0), concat(all_targets, 0))}};
    }
    return evaluation;
  }

  Settings settings_;
  ClassifierData data_;
  ClassifierOptions options_;
  Generator rng_;
  nn::SequenceClassifier model_;
  nn::Loader loader_;
};

}  // namespace

std::unique_ptr<Task> make_sequence_classification(const Settings& s, ClassifierData data,
                                                   ClassifierOptions options) {
  if (s.batch > data.train.data->size()) {
    throw UsageError(fmt::format("--batch {}: there are {} examples to train on; lower it", s.batch,
                                 format_count(data.train.data->size())));
  }
  return std::make_unique<SequenceClassification>(s, std::move(data), std::move(options));
}

}  // namespace linnet::examples
