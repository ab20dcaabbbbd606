#pragma once

#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// Options of an image classifier.
struct PatchClassifierConfig {
  int64_t side = 28;          ///< of the square image
  int64_t patch = 4;          ///< side of a patch; divides `side`
  int64_t classes = 10;       ///< number of classes
  int64_t layers = 1;         ///< number of blocks
  bool share_layers = false;  ///< one block, applied `layers` times (Lan et al. 2020, ALBERT)
  /// Options of every layer. The model sets `causal` to false, `rotary` from `positions`, `max_tokens` and `shared`.
  BlockConfig block = {};
  Positions positions = Positions::learned;  ///< how it knows the order of patches
};

/// An image classifier like ViT with mean pooling, whose tokens are patches. Learned positions start as N(0, 1), with
/// fastformer as N(0, 0.3²). Submodules: `patch`, `pos`, `blocks.<i>`, `norm`, `head`. Parameter, if the
/// attentions share one: `shared_attention`.
///
/// Source: Dosovitskiy et al. 2021.
class PatchClassifier : public Module {
 public:
  /// Throws: ValueError unless the patch divides the side, and for layers below 1; as Block.
  PatchClassifier(Generator& rng, const PatchClassifierConfig& config, DType dtype = DType::float32,
                  Device device = Device::cpu);

  /// Logits of the classes, for images stored row by row.
  ///
  /// Shapes: images [B, side·side] → [B, classes].
  /// Dtypes: dtype().
  /// Cost: that of the layers for (side/patch)² tokens.
  /// Throws: ShapeError for images of another size.
  Tensor operator()(const Tensor& images, Where where = {}) const;

  const PatchClassifierConfig& config() const { return config_; }  ///< the options given to the constructor

  std::vector<Setting> settings() const override;

 private:
  const Block& layer(int64_t i) const { return blocks_[config_.share_layers ? 0 : i]; }
  Tensor patches(const Tensor& images, Where where) const;

  PatchClassifierConfig config_;
  Linear patch_;
  PositionEmbedding pos_;
  Dropout dropout_;
  ModuleList<Block> blocks_;  // only one with share_layers
  LayerNorm norm_;
  Linear head_;
};

}  // namespace linnet::nn
