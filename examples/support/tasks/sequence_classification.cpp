#include "support/tasks/sequence_classification.h"

#include <utility>

#include <fmt/format.h>

#include "support/format.h"
#include "support/ranks.h"
#include "support/settings/program.h"
#include "support/tasks/word_vectors.h"

namespace linnet::examples {
namespace {

/// The data, if they have enough examples for one batch.
ClassifierData enough(const Settings& s, ClassifierData data) {
  if (s.batch <= data.train.data->size()) return data;
  throw UsageError(fmt::format("--batch {}: there are {} examples to train on; lower it", s.batch,
                               format_count(data.train.data->size())));
}

class SequenceClassification : public ClassificationTask {
 public:
  SequenceClassification(const Settings& s, ClassifierData data, const ClassifierOptions& options)
      : ClassificationTask(s, std::move(data), options.measures),
        max_tokens_(options.model.max_tokens),
        rng_(s.seed),
        model_(rng_, options.model, model_dtype(s), device_of(s)) {
    begin_with(options.embeddings, model_.embeddings());
  }

  nn::Module& model() override { return model_; }
  std::vector<int64_t> lengths() const override { return {max_tokens_}; }

 private:
  Tensor logits(const nn::Batch& batch) const override {
    const std::vector<Tensor>& others = batch.others;
    if (others.size() == 1) return model_(batch.inputs, others[0]);
    return model_(batch.inputs, others[0], others[1], others[2]);
  }

  int64_t max_tokens_;
  Generator rng_;
  nn::SequenceClassifier model_;
};

}  // namespace

ClassificationTask::ClassificationTask(const Settings& s, ClassifierData data, ClassificationMeasures measures)
    : settings_(s),
      data_(enough(s, std::move(data))),
      measures_(measures),
      loader_(*data_.train.data,
              {.batch = s.batch, .seed = s.seed, .drop_last = true, .lengths = data_.train.lengths}) {}

/// The loss and the metrics of the first `batches` batches, in an order that is always the same; 0 for all.
Task::Evaluation ClassificationTask::evaluate(const SequencePart& part, int64_t batches) {
  const NoGrad no_grad;
  nn::Module& model = this->model();
  model.eval();
  nn::Loader loader(*part.data, {.batch = settings_.batch, .device = model.device(), .lengths = part.lengths});
  const auto all = figures_of_batches(batches_to_evaluate(loader, batches), [&](int64_t i) {
    const nn::Batch batch = batch_at(loader, i);
    const Tensor scores = logits(batch);
    const auto size = static_cast<double>(batch.targets.size(0));
    Figures figures{size, cross_entropy(scores, batch.targets).item<double>() * size,
                    accuracy(scores, batch.targets) * size};
    if (measures_.macro_f) {
      for (const Tensor& each : {batch.targets, scores}) {
        const std::vector<double> values = each.to_vector<double>();
        figures.insert(figures.end(), values.begin(), values.end());
      }
    }
    return figures;
  });
  model.train();
  double loss = 0, correct = 0, examples = 0;
  std::vector<int64_t> targets;
  std::vector<double> scores;
  for (const Figures& figures : all) {
    examples += figures[0];
    loss += figures[1];
    correct += figures[2];
    if (!measures_.macro_f) continue;
    const auto first_target = figures.begin() + 3, first_score = first_target + static_cast<ptrdiff_t>(figures[0]);
    targets.insert(targets.end(), first_target, first_score);
    scores.insert(scores.end(), first_score, figures.end());
  }
  Evaluation evaluation{.loss = loss / examples, .accuracy = correct / examples};
  if (measures_.macro_f) {
    evaluation.measures = {{kMacroF, nn::macro_f1(tensor(scores, {std::ssize(targets), -1}), tensor(targets))}};
  }
  return evaluation;
}

std::unique_ptr<Task> make_sequence_classification(const Settings& s, ClassifierData data,
                                                   const ClassifierOptions& options) {
  return std::make_unique<SequenceClassification>(s, std::move(data), options);
}

}  // namespace linnet::examples
