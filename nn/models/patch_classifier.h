#pragma once

#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// What an image classifier is made of.
struct PatchClassifierConfig {
  int64_t side = 28;  ///< of the square image
  int64_t patch = 4;  ///< side of a patch; divides `side`
  int64_t classes = 10;
  int64_t layers = 1;
  bool share_layers = false;  ///< one block, applied `layers` times (Lan et al. 2020, ALBERT)
  BlockConfig block = {};     ///< of every layer; the model clears its `causal`, and sets `rotary` from `positions`
  Positions positions = Positions::learned;
};

/// An image classifier, as ViT (Dosovitskiy et al. 2021) with mean pooling: patches are the tokens. Learned positions
/// start as N(0, 1), with fastformer as N(0, 0.3). Parts: `patch`, `pos`, `blocks.<i>`, `norm`, `head`.
class PatchClassifier : public Module {
 public:
  /// Throws ValueError unless the patch divides the side, for layers below 1, and as Block does.
  PatchClassifier(Generator& rng, const PatchClassifierConfig& config, DType dtype = DType::float32,
                  Device device = Device::cpu);

  /// Images [B, side·side] of dtype(), row by row → logits [B, classes], of dtype() too. Throws ShapeError for images
  /// of another size. The time is that of the layers over (side/patch)² tokens.
  Tensor operator()(const Tensor& images, Where where = {}) const;

  const PatchClassifierConfig& config() const { return config_; }  ///< as it was built

  std::vector<Setting> settings() const override;

 private:
  const Block& layer(int64_t i) const { return blocks_[config_.share_layers ? 0 : i]; }
  Tensor patches(const Tensor& images, Where where) const;

  PatchClassifierConfig config_;
  Linear patch_;
  PositionEmbedding pos_;
  Dropout dropout_;
  ModuleList<Block> blocks_;  // one, when layers share it
  LayerNorm norm_;
  Linear head_;
};

}  // namespace linnet::nn
