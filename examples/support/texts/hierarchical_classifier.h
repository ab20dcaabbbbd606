#pragma once

#include <memory>

#include <linnet/linnet.h>

#include "support/settings/settings.h"
#include "support/tasks/pooled_encoder.h"

namespace linnet::examples {

/// A classifier of texts on two levels: one encoder turns the words of each sentence into a vector, another turns the
/// sentences of each text into a vector, and a linear layer follows. If the embeddings have another width than the
/// model, a linear map follows them.
///
/// Submodules: `tok`, `map`, `sentences` and `texts`, which are a PooledEncoder each, and `fc`.
///
/// Source: Yang et al. 2016 for the two levels; Wu et al. 2021, section 4.1, for the encoders.
class HierarchicalClassifier : public nn::Module {
 public:
  /// An `embedding_width` of 0 is the model's width.
  HierarchicalClassifier(Generator& rng, const Settings& settings, int64_t vocabulary, int64_t classes,
                         int64_t embedding_width, DType dtype, Device device = Device::cpu);

  /// Logits of the classes, for a batch of SentenceDataset. The content of padding does not change a bit of them.
  ///
  /// Shapes: [B, classes].
  Tensor operator()(const nn::Batch& batch) const;

  const Tensor& embeddings() const { return tok_.weight(); }  ///< of the words: [vocabulary, embedding width]

 private:
  nn::Embedding tok_;
  std::unique_ptr<nn::Linear> map_;  // null if embeddings have the model's width
  PooledEncoder sentences_, texts_;
  nn::Linear fc_;
};

}  // namespace linnet::examples
