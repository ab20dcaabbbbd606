#pragma once

#include <optional>

#include <linnet/linnet.h>

#include "support/settings/settings.h"
#include "support/tasks/pooled_encoder.h"

namespace linnet::examples {

/// The two levels of Wu et al. 2021, section 4.1: words become the vector of an item, and the items of a history the
/// vector of a user. A score is the dot product of both, or the logit that a head computes (section 4.6):
/// w·relu(W [user, item, user∘item] + b) + c.
class TwoLevelModel : public nn::Module {
 public:
  /// If embeddings of words have another width than the model, a linear map follows them; 0: they have the model's
  /// width.
  TwoLevelModel(Generator& rng, const Settings& settings, int64_t vocabulary, bool has_head,
                int64_t embedding_width = 0);

  /// The scores of a user_batch.
  ///
  /// Shapes: [B, K].
  Tensor operator()(const nn::Batch& batch) const;

  /// Shapes: ids of words and their mask [U, T] → [U, width].
  Tensor items(const Tensor& words, const Tensor& mask) const;
  /// Shapes: items [U, width], histories as rows of it and their mask [B, H] → [B, width].
  Tensor users(const Tensor& items, const Tensor& histories, const Tensor& mask) const;
  /// Shapes: users [B, width], items [U, width], candidates as rows of it [B, K] → [B, K].
  Tensor scores(const Tensor& users, const Tensor& items, const Tensor& candidates) const;

  const Tensor& embeddings() const { return words_.weight(); }  ///< of the words: [vocabulary, embedding width]

 private:
  nn::Embedding words_;
  std::optional<nn::Linear> map_;  // none if embeddings have the model's width
  PooledEncoder item_encoder_, user_encoder_;
  std::optional<nn::Linear> fc1_, fc2_;
};

}  // namespace linnet::examples
