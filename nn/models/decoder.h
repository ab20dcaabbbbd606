#pragma once

#include <memory>
#include <vector>

#include <linnet/nn/layers/embedding.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// What a language model is made of.
struct DecoderConfig {
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< the longest text that learned positions take
  int64_t layers = 1;
  bool share_layers = false;  ///< one block, applied `layers` times (Lan et al. 2020, ALBERT)
  BlockConfig block = {};     ///< of every layer; the model sets its `causal`, and `rotary` from `positions`
  Positions positions = Positions::learned;
};

/// What generation carries from token to token.
struct DecoderState {
  std::vector<std::unique_ptr<AttentionState>> layers;
  int64_t tokens = 0;  ///< seen so far
};

/// A decoder-only language model, as GPT-2: token and position embeddings, blocks, a final norm, and a head
/// that is the token embedding again. Weights start as N(0, 0.02), those that end a residual branch as N(0,
/// 0.02/√(2·layers)), fastmax2's for queries and keys as N(0, 0.2), and biases as 0. Parts:
/// `tok`, `pos`, `blocks.<i>`, `norm`.
class DecoderLM : public Module {
 public:
  /// Throws ValueError for a vocabulary or layers below 1, for a context below 1 of learned positions, and as Block
  /// does.
  DecoderLM(Generator& rng, const DecoderConfig& config, DType dtype = DType::float32, Device device = Device::cpu);

  /// Integer token ids [B, N] → logits of each next token [B, N, V], of dtype(). Throws ShapeError for another rank,
  /// IndexError for an id outside the vocabulary, ValueError for more tokens than learned positions have. The time is
  /// that of the layers' attention and linear maps, and N·C·V of the head.
  Tensor operator()(const Tensor& ids, Where where = {}) const;

  /// Starts texts.
  DecoderState start() const;
  /// The next token of each text: ids [B] → logits of the one after, [B, V]: what `operator()` gives at that
  /// position, to rounding. Throws as operator() does.
  Tensor step(DecoderState& state, const Tensor& ids, Where where = {}) const;

  const DecoderConfig& config() const { return config_; }  ///< as it was built

  std::vector<Setting> settings() const override;

 private:
  const Block& layer(int64_t i) const { return blocks_[config_.share_layers ? 0 : i]; }
  void init_weights();
  Tensor embed(const Tensor& ids, int64_t start, Where where) const;
  Tensor head(const Tensor& x, Where where) const;

  DecoderConfig config_;
  Embedding tok_;
  PositionEmbedding pos_;
  Dropout dropout_;
  ModuleList<Block> blocks_;  // one, when layers share it
  LayerNorm norm_;
};

}  // namespace linnet::nn
