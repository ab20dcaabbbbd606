#pragma once

#include <memory>
#include <vector>

#include <linnet/nn/layers/embedding.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// Options of a language model.
struct DecoderConfig {
  int64_t vocabulary = 0;  ///< number of ids
  /// The number of learned positions, so with them the length of the longest text. With other positions, weights load
  /// into a model with another context.
  int64_t context = 0;
  int64_t layers = 1;         ///< number of blocks
  bool share_layers = false;  ///< one block, applied `layers` times (Lan et al. 2020, ALBERT)
  /// Options of every layer. The model sets `causal`, `rotary` from `positions`, and `max_tokens` from `context`.
  BlockConfig block = {};
  Positions positions = Positions::learned;  ///< how it knows the order of tokens
};

/// The state of the step form between tokens.
struct DecoderState {
  std::vector<std::unique_ptr<AttentionState>> layers;  ///< one for each layer
  int64_t tokens = 0;                                   ///< seen so far
};

/// A decoder-only language model like GPT-2: token and position embeddings, blocks, a final norm, and a head that
/// shares the token embedding's weight. Submodules: `tok`, `pos`, `blocks.<i>`, `norm`.
///
/// Weights of rank 2 and more, including Fastformer's w_q and w_k, start as N(0, 0.02²). Those that end a residual
/// branch start as N(0, 0.02²/(2·layers)), and fastmax2's query and key weights as N(0, 0.2²). Convolutions keep
/// their own initial weights. Biases start as 0.
class DecoderLM : public Module {
 public:
  /// Throws: ValueError for a vocabulary or layers below 1, for learned positions with a context below 1, and for a
  /// mechanism without a causal form; as Block.
  DecoderLM(Generator& rng, const DecoderConfig& config, DType dtype = DType::float32, Device device = Device::cpu);

  /// Logits of each next token.
  ///
  /// Shapes: ids [B, N] → [B, N, V].
  /// Dtypes: ids are int64 or int32; logits have dtype().
  /// Cost: the layers' attention and linear maps, and O(B·N·C·V) for the head.
  /// Throws: ShapeError for another rank; IndexError for an id outside the vocabulary; ValueError for more tokens
  /// than learned positions have.
  Tensor operator()(const Tensor& ids, Where where = {}) const;

  /// The state before the first token.
  ///
  /// Throws: ValueError where the attention has no step form (Mechanism::step).
  DecoderState start() const;
  /// The step form: takes the next token of each text and returns the logits of the token after it. These agree with
  /// `operator()` at that position up to rounding.
  ///
  /// Shapes: ids [B] → [B, V].
  /// Throws: as operator().
  Tensor step(DecoderState& state, const Tensor& ids, Where where = {}) const;

  const DecoderConfig& config() const { return config_; }  ///< the options given to the constructor

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
  ModuleList<Block> blocks_;  // only one with share_layers
  LayerNorm norm_;
};

}  // namespace linnet::nn
