#pragma once

#include <memory>
#include <optional>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// Makes one vector of each sequence of vectors, as settings.of_users.encoder says. The layers are those of the
/// encoder that Fastformer's authors released, with any mechanism: the sum of vectors and positions is normalised,
/// and every branch of a layer too, after its sum; then comes additive pooling.
class PooledEncoder : public nn::Module {
 public:
  /// Sequences have at most `max_tokens` vectors.
  PooledEncoder(nn::Module& parent, std::string name, const Settings& settings, int64_t max_tokens);

  /// Shapes: x [B, N, width], mask [B, N] → [B, width]; 0 where the mask is false everywhere.
  Tensor operator()(const Tensor& x, const Tensor& mask) const;

 private:
  int64_t layers_;
  nn::Dropout dropout_;
  std::optional<nn::PositionEmbedding> pos_;
  std::optional<nn::LayerNorm> norm_;
  nn::ModuleList<nn::Block> blocks_;          // one, when layers share it
  std::unique_ptr<nn::Attention> attention_;  // of UserEncoder::nrms
  std::optional<nn::AttentionPooling> pool_;  // not of UserEncoder::mean
};

/// The two levels of Wu et al. 2021, section 4.1: words become the vector of an item, and the items of a history the
/// vector of a user. Both are scored by their product, or by a head (section 4.6): sigmoid's input w·relu(W [user,
/// item, user∘item] + b) + c.
class TwoLevelModel : public nn::Module {
 public:
  TwoLevelModel(Generator& rng, const Settings& settings, int64_t vocabulary, bool has_head);

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

 private:
  nn::Embedding words_;
  PooledEncoder item_encoder_, user_encoder_;
  std::optional<nn::Linear> fc1_, fc2_;
};

}  // namespace linnet::examples
