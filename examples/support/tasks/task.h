#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// Metrics of a model by their names, such as {"AUC", 0.68}.
using Measures = std::vector<std::pair<std::string, double>>;
inline constexpr const char* kMacroF = "macro-F";  ///< the name of nn::macro_f1

/// A model and its data, as the training loop uses them.
class Task {
 public:
  struct Evaluation {
    double loss = 0;
    std::optional<double> accuracy = {};
    Measures measures = {};  ///< further metrics of the task
  };

  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  /// Micro-batch `index` of the run, on the CPU. It depends only on the seed and the index.
  virtual nn::Batch batch(int64_t index) = 0;
  /// The loss of a batch that is on the model's device.
  virtual Tensor loss(const nn::Batch& batch) = 0;
  /// The loss on `batches` validation batches, the same ones every time; 0 for all validation data.
  virtual Evaluation evaluate(int64_t batches) = 0;
  /// The loss on all data of the final evaluation: test data, or all validation data if there are no test data.
  virtual Evaluation test() { return evaluate(0); }
  /// A description of the data of `test`, for runs without settings.keep_best.
  virtual std::string test_data() const { return "all validation data"; }
  /// The accuracy, on the data of `test`, of always giving the most common answer of the training data. Nothing if
  /// there is no such answer.
  virtual std::optional<double> constant_accuracy() const { return std::nullopt; }
  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t tokens_per_batch() const = 0;
  /// The lengths of the longest sequences that the model's attentions see, one for each of its encoders.
  virtual std::vector<int64_t> lengths() const = 0;
  /// The name of the data set. A stand-in has another name than the real set.
  virtual std::string data_name() const = 0;
  /// Text for samples.txt, written when training ends; empty for tasks without text.
  virtual std::string sample(int64_t tokens) = 0;
  /// Metadata that `sample` and other programs need in addition to the weights.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

std::unique_ptr<Task> make_text_task(const Settings& settings);
std::unique_ptr<Task> make_image_task(const Settings& settings);
std::unique_ptr<Task> make_sequence_task(const Settings& settings);
std::unique_ptr<Task> make_labelled_text_task(const Settings& settings);
std::unique_ptr<Task> make_summary_task(const Settings& settings);
/// The task of settings.task. Throws as check_word_vectors, before it reads data.
std::unique_ptr<Task> make_task(const Settings& settings);
/// The same for benchmarks, which need no data of the Long Range Arena and no labelled texts: such tasks have random
/// sequences of full length.
std::unique_ptr<Task> make_random_task(const Settings& settings);
std::unique_ptr<Task> make_random_sequence_task(const Settings& settings);
std::unique_ptr<Task> make_random_labelled_text_task(const Settings& settings);

/// Throws UsageError for options that the mechanism refuses at the lengths of the task.
void check_lengths(const Settings& settings, const Task& task);
/// What a reader of the run's results must know about its mechanism at the lengths of the task, such as that it
/// equals softmax attention there. Empty if there is nothing to say.
std::string note_of(const Settings& settings, const Task& task);

/// The random streams of a run that draw batches; its Generator has other streams.
enum class Stream : uint64_t { train = uint64_t{1} << 62, validate = uint64_t{2} << 62 };
inline RandomKey stream_key(uint64_t seed, Stream stream, int64_t index) {
  return {seed, static_cast<uint64_t>(stream) + static_cast<uint64_t>(index)};
}

/// Batch `index` of a run, counted over epochs.
nn::Batch batch_at(nn::Loader& loader, int64_t index);
/// The number of a loader's batches that an evaluation on `batches` of them takes; 0 means all.
int64_t batches_to_evaluate(const nn::Loader& loader, int64_t batches);

/// The config of a classifier of sequences.
nn::SequenceClassifierConfig sequence_model_config(const Settings& settings);
/// The config of a classifier of texts with a vocabulary of this size. Its embeddings have the width
/// `embedding_width`; 0: the model's own width.
nn::SequenceClassifierConfig labelled_text_model_config(const Settings& settings, int64_t vocabulary, int64_t classes,
                                                        int64_t embedding_width);
/// The config of a classifier of images of side·side pixels.
nn::PatchClassifierConfig image_model_config(const Settings& settings, int64_t side, int64_t classes);

}  // namespace linnet::examples
