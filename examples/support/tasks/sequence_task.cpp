#include <bit>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/format.h"
#include "support/lra/load.h"
#include "support/settings/program.h"
#include "support/tasks/task.h"

/// A classifier of sequences of ids: the tasks of the Long Range Arena.

namespace linnet::examples {
namespace {

/// Random sequences, all as long as the longest of the task.
LabelledSequences random_sequences(const Settings& s) {
  const SequenceTask& task = sequence_task(s.task);
  Draws draws({s.seed, 0});
  ByteSequences first, second;
  std::vector<uint8_t> labels;
  for (int64_t i = 0; i < s.batch; ++i) {
    for (ByteSequences* sequences : {&first, &second}) {
      if (sequences == &second && !task.pairs) continue;
      std::vector<uint8_t> bytes(static_cast<size_t>(s.context));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draws.below(task.ids - 1));
      sequences->append(bytes);
    }
    labels.push_back(static_cast<uint8_t>(draws.below(task.classes)));
  }
  return {std::move(first), std::move(labels), std::move(second)};
}

/// Loads the data. Throws UsageError if there are too few examples for one batch.
SequenceData sequences_for(const Settings& s) {
  check_options(s, sequence_model_config(s).max_tokens);
  SequenceData data = load_sequences(s);
  if (s.batch <= data.train.size()) return data;
  throw UsageError(fmt::format("--batch {}: there are {} examples to train on; lower it", s.batch,
                               format_count(data.train.size())));
}

class SequenceClassification : public Task {
 public:
  SequenceClassification(const Settings& s, SequenceData data)
      : settings_(s),
        data_(std::move(data)),
        rng_(s.seed),
        model_(rng_, sequence_model_config(s), model_dtype(s), device_of(s)),
        loader_(data_.train,
                {.batch = s.batch, .seed = s.seed, .drop_last = true, .lengths = data_.train.lengths()}) {}

  nn::Module& model() override { return model_; }
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(logits(batch), batch.targets); }

  Evaluation evaluate(int64_t batches) override { return evaluate(data_.dev, batches); }
  Evaluation test() override { return evaluate(data_.test, 0); }

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override {
    const auto tokens = std::ssize(data_.train.first().bytes()) + std::ssize(data_.train.second().bytes());
    return settings_.batch * tokens / data_.train.size();
  }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

 private:
  Tensor logits(const nn::Batch& batch) const {
    const std::vector<Tensor>& others = batch.others;
    if (others.size() == 1) return model_(batch.inputs, others[0]);
    return model_(batch.inputs, others[0], others[1], others[2]);
  }

  /// The loss and accuracy of the first `batches` batches, in an order that is always the same; 0 for all.
  Evaluation evaluate(const LabelledSequences& data, int64_t batches) {
    const NoGrad no_grad;
    model_.eval();
    nn::Loader loader(data, {.batch = settings_.batch, .device = model_.device(), .lengths = data.lengths()});
    double loss = 0, correct = 0, examples = 0;
    for (const nn::Batch& batch : loader) {
      const Tensor scores = logits(batch);
      const auto size = static_cast<double>(batch.targets.size(0));
      loss += cross_entropy(scores, batch.targets).item<double>() * size;
      correct += accuracy(scores, batch.targets) * size;
      examples += size;
      if (batches > 0 && loader.position().batch == batches) break;
    }
    model_.train();
    return {.loss = loss / examples, .accuracy = correct / examples};
  }

  Settings settings_;
  SequenceData data_;
  Generator rng_;
  nn::SequenceClassifier model_;
  nn::Loader loader_;
};

}  // namespace

nn::SequenceClassifierConfig sequence_model_config(const Settings& s) {
  const SequenceTask& task = sequence_task(s.task);
  return {.vocabulary = task.ids,
          .classes = task.classes,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .max_tokens = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(s.context))),
          .block = block_config(s),
          .positions = positions_of(s),
          .pooling = pool_of(s),
          .pairs = task.pairs};
}

std::unique_ptr<Task> make_sequence_task(const Settings& settings) {
  return std::make_unique<SequenceClassification>(settings, sequences_for(settings));
}

std::unique_ptr<Task> make_random_task(const Settings& s) {
  if (kind_of(s.task) != TaskKind::sequences) return make_task(s);
  check_options(s, sequence_model_config(s).max_tokens);
  const LabelledSequences data = random_sequences(s);
  return std::make_unique<SequenceClassification>(s, SequenceData{"random tokens", data, data, data});
}

}  // namespace linnet::examples
