#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/tasks/task.h"

namespace linnet::examples {

/// Some examples of a classifier of sequences. A batch of them has the ids, the labels and, as `others`, the padding
/// mask; of pairs also the second ids and their padding mask.
struct SequencePart {
  std::unique_ptr<nn::Dataset> data;
  std::vector<int64_t> lengths;  ///< of each example
};

/// The data of a classifier of sequences.
struct ClassifierData {
  std::string name;  ///< "stand-in: …" where other data stand in for it
  SequencePart train, dev, test;
};

/// Options of a classifier of sequences.
struct ClassifierOptions {
  nn::SequenceClassifierConfig model;
  bool macro_f = false;            ///< whether evaluations have the macro-F
  Tensor embeddings = {};          ///< what the embeddings of ids begin with; undefined: the model's own
  int64_t tokens_per_example = 1;  ///< on average
};

/// A task that trains a classifier of sequences. Batches hold examples of about one length.
///
/// Throws: UsageError if there are too few examples for one batch.
std::unique_ptr<Task> make_sequence_classification(const Settings& settings, ClassifierData data,
                                                   ClassifierOptions options);

}  // namespace linnet::examples
