#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// A model and the data it learns from: what the training loop needs to know, and no more.
class Task {
 public:
  struct Evaluation {
    double loss = 0;
    std::optional<double> accuracy = {};
  };

  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  /// Micro-batch `index` of the run, on the CPU, which depends on the seed and the index alone.
  virtual nn::Batch batch(int64_t index) = 0;
  /// Its loss, once it is on the model's device.
  virtual Tensor loss(const nn::Batch& batch) = 0;
  /// The loss on `batches` validation batches, the same ones every time; 0 for all validation data.
  virtual Evaluation evaluate(int64_t batches) = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t tokens_per_batch() const = 0;
  /// The data set, by name, so that a stand-in is never taken for the real one.
  virtual std::string data_name() const = 0;
  /// Written to samples.txt when training ends; empty where there is nothing to sample.
  virtual std::string sample(int64_t tokens) = 0;
  /// What `sample` and other programs need beside the weights.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
};

std::unique_ptr<Task> make_text_task(const Settings& settings);
std::unique_ptr<Task> make_image_task(const Settings& settings);
std::unique_ptr<Task> make_task(const Settings& settings);

/// Streams of random numbers of a run, apart from those of its generator.
enum class Stream : uint64_t { train = uint64_t{1} << 62, validate = uint64_t{2} << 62 };
inline RandomKey stream_key(uint64_t seed, Stream stream, int64_t index) {
  return {seed, static_cast<uint64_t>(stream) + static_cast<uint64_t>(index)};
}

/// The config of a classifier of images of side·side pixels.
nn::PatchClassifierConfig image_model_config(const Settings& settings, int64_t side, int64_t classes);

}  // namespace linnet::examples
