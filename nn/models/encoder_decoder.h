#pragma once

#include <vector>

#include <linnet/nn/layers/embedding.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/decoder_block.h>

namespace linnet::nn {

/// Options of an encoder–decoder.
struct EncoderDecoderConfig {
  int64_t vocabulary = 0;  ///< number of ids, of sources and targets
  /// Lengths of the longest source and target. Without learned positions, weights load into a model with others.
  int64_t source_tokens = 0, target_tokens = 0;
  int64_t encoder_layers = 1;  ///< number of encoder layers
  int64_t decoder_layers = 1;  ///< number of decoder layers
  /// One encoder and one decoder layer, each applied many times (Lan et al. 2020, ALBERT).
  bool share_layers = false;
  /// Options of every layer, with the encoder's attention. The model sets `causal`, `rotary` from `positions`,
  /// `max_tokens` and `shared`. Its `dropout` also applies to the embeddings.
  BlockConfig block = {};
  /// The decoder's self-attention, and its attention to the encoder's tokens. Only their `mechanism`, `options` and
  /// `make` are used; the other members are those of `block`.
  AttentionConfig decoder = {}, cross = {};
  Positions positions = Positions::learned;  ///< how it knows the order of tokens
};

/// The state of the step form between tokens, for R targets: a group of R/S for each of S sources, in order.
struct EncoderDecoderState {
  std::vector<DecoderBlockState> layers;  ///< empty if the decoder's self-attention has no step form
  Tensor memory, source_mask, targets;    ///< inputs of the sequence form, if `layers` is empty
  int64_t tokens = 0;                     ///< seen so far

  /// Reorders, repeats or drops targets, and `sources` with them; see AttentionState::select.
  ///
  /// Shapes: rows [R], sources [S], where S divides R.
  /// Throws: as AttentionState::select.
  void select(const Tensor& rows, const Tensor& sources = {}, Where where = {});
};

/// An encoder–decoder of Transformer layers, which writes a target text from a source text: token and position
/// embeddings, encoder blocks and a norm; then decoder blocks, a norm, and a head. Encoder, decoder and head share
/// the token embedding's weight.
///
/// Padding must be at the end. The ids of padding tokens do not change results at all. The number of padding tokens
/// of a source changes only rounding, except with bigbird and reformer in the encoder, whose blocks depend on it.
///
/// Embeddings and learned positions start as N(0, 0.02²). Submodules: `tok`, `source_pos`, `target_pos`,
/// `encoder.<i>`, `encoder_norm`, `decoder.<i>`, `decoder_norm`. Parameters, if the encoder's attentions or the
/// cross-attentions share one: `shared_attention`, `shared_cross`.
///
///     nn::EncoderDecoder model(rng, {.vocabulary = 8000, .source_tokens = 512, .target_tokens = 128,
///                                    .encoder_layers = 2, .decoder_layers = 2,
///                                    .block = {.attention = {.width = 256, .heads = 16}}});
///     const Tensor logits = model(inputs, ne(inputs, 0), targets);  // where id 0 is padding
///
/// Source: Vaswani et al. 2017, section 3.
class EncoderDecoder : public Module {
 public:
  /// Throws: ValueError for a vocabulary, layers or tokens below 1, and for a decoder's mechanism without a causal
  /// form; as Block and DecoderBlock.
  EncoderDecoder(Generator& rng, const EncoderDecoderConfig& config, DType dtype = DType::float32,
                 Device device = Device::cpu);

  /// Logits of each next token of the targets, which begin with a start token.
  ///
  /// Shapes: source [B, N], `source_mask` [B, N], target [B, M] → [B, M, V].
  /// Dtypes: ids are int64 or int32, `source_mask` is bool, false where a token is padding; logits have dtype().
  /// Cost: the layers', and O(B·M·C·V) for the head.
  /// Throws: ShapeError for other shapes and for a mask that is not bool; IndexError for an id outside the
  /// vocabulary, padding's too; ValueError for a source or target that is too long.
  Tensor operator()(const Tensor& source, const Tensor& source_mask, const Tensor& target, Where where = {}) const;

  /// The encoder's tokens, which `decode` takes as its memory.
  ///
  /// Shapes: source [B, N], `source_mask` [B, N] → [B, N, C].
  /// Throws: as operator().
  Tensor encode(const Tensor& source, const Tensor& source_mask = {}, Where where = {}) const;
  /// The logits of the targets, given the encoder's tokens.
  ///
  /// Shapes: memory [B, N, C], `source_mask` [B, N], target [B, M] → [B, M, V].
  /// Throws: as operator().
  Tensor decode(const Tensor& memory, const Tensor& source_mask, const Tensor& target, Where where = {}) const;

  /// Encodes the sources, and returns the state before the first token of a target for each.
  ///
  /// Throws: as operator().
  EncoderDecoderState start(const Tensor& source, const Tensor& source_mask = {}, Where where = {}) const;
  /// The step form: takes the next token of each target and returns the logits of the token after it. These agree
  /// with operator() at that position up to rounding. Where the decoder's self-attention has no step form, it
  /// evaluates the sequence form on all tokens so far.
  ///
  /// Shapes: ids [R] → [R, V].
  /// Throws: as operator().
  Tensor step(EncoderDecoderState& state, const Tensor& ids, Where where = {}) const;

  const EncoderDecoderConfig& config() const { return config_; }  ///< the options, with those that the model sets

  std::vector<Setting> settings() const override;

 private:
  const Block& encoder_layer(int64_t i) const { return encoder_[config_.share_layers ? 0 : i]; }
  const DecoderBlock& decoder_layer(int64_t i) const { return decoder_[config_.share_layers ? 0 : i]; }
  void check(const char* what, const Tensor& ids, int64_t most, Where where) const;
  Tensor embed(const Tensor& ids, const PositionEmbedding& positions, int64_t start, Where where) const;
  Tensor head(const Tensor& x, Where where) const;

  EncoderDecoderConfig config_;
  Embedding tok_;
  PositionEmbedding source_pos_, target_pos_;
  Dropout dropout_;
  ModuleList<Block> encoder_;  // only one layer with share_layers, as in the decoder
  LayerNorm encoder_norm_;
  ModuleList<DecoderBlock> decoder_;
  LayerNorm decoder_norm_;
};

}  // namespace linnet::nn
