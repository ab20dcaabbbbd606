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

}  // namespace linnet::examples
