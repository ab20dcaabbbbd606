#pragma once

#include <memory>
#include <optional>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// Turns each sequence of vectors into one vector, in the way that settings.of_users.encoder names. The layers are
/// those of the encoder that Fastformer's authors released, but with any mechanism. Layer norm follows the sum of
/// vectors and positions, and each residual sum of a layer. Additive pooling comes last.
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
  std::unique_ptr<nn::Attention> attention_;  // only for UserEncoder::nrms
  std::optional<nn::AttentionPooling> pool_;  // not for UserEncoder::mean
};

}  // namespace linnet::examples
