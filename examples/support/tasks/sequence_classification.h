#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/tasks/task.h"

namespace linnet::examples {

/// A part of a classifier's examples. A batch of sequences has the ids, the labels and, as `others`, the padding
/// mask. A batch of pairs also has the second ids and their padding mask. Texts of sentences are a SentenceDataset.
struct SequencePart {
  std::unique_ptr<nn::Dataset> data;
  std::vector<int64_t> lengths;  ///< of each example
};

/// The data of a classifier.
struct ClassifierData {
  std::string name;  ///< "stand-in: …" if other data stand in for it
  SequencePart train, dev, test;
  std::optional<double> constant_accuracy = {};  ///< Task::constant_accuracy
};

/// How a classification task measures its model.
struct ClassificationMeasures {
  bool macro_f = false;            ///< whether evaluations compute the macro-F
  int64_t tokens_per_example = 1;  ///< on average
};

/// A task that trains a classifier. The examples of a batch have about the same length.
class ClassificationTask : public Task {
 public:
  nn::Batch batch(int64_t index) override { return batch_at(loader_, index); }
  Tensor loss(const nn::Batch& batch) override { return cross_entropy(logits(batch), batch.targets); }

  Evaluation evaluate(int64_t batches) override { return evaluate(data_.dev, batches); }
  Evaluation test() override { return evaluate(data_.test, 0); }
  std::optional<double> constant_accuracy() const override { return data_.constant_accuracy; }

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t tokens_per_batch() const override { return settings_.batch * measures_.tokens_per_example; }
  std::string data_name() const override { return data_.name; }
  std::string sample(int64_t) override { return ""; }

 protected:
  /// Throws: UsageError if there are too few examples for one batch.
  ClassificationTask(const Settings& settings, ClassifierData data, ClassificationMeasures measures);

  /// The model's logits of the classes.
  ///
  /// Shapes: [B, classes].
  virtual Tensor logits(const nn::Batch& batch) const = 0;

 private:
  Evaluation evaluate(const SequencePart& part, int64_t batches);

  Settings settings_;
  ClassifierData data_;
  ClassificationMeasures measures_;
  nn::Loader loader_;
};

/// Options of a classifier of sequences.
struct ClassifierOptions {
  nn::SequenceClassifierConfig model;
  Tensor embeddings = {};  ///< the initial embeddings of ids; undefined: the model's own
  ClassificationMeasures measures = {};
};

/// A task that trains an nn::SequenceClassifier.
///
/// Throws: UsageError if there are too few examples for one batch.
std::unique_ptr<Task> make_sequence_classification(const Settings& settings, ClassifierData data,
                                                   const ClassifierOptions& options);

}  // namespace linnet::examples
