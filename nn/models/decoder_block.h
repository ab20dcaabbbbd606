#pragma once

#include <memory>

#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// Options of a decoder layer.
struct DecoderBlockConfig {
  BlockConfig block = {};      ///< of the layer and its self-attention
  AttentionConfig cross = {};  ///< of its cross-attention, with the width of the block
};

/// The states of a decoder layer's step form.
struct DecoderBlockState {
  std::unique_ptr<AttentionState> attention, cross;  ///< the states of self-attention and cross-attention
};

/// A Transformer's decoder layer: self-attention, cross-attention to the tokens of an encoder, and feed-forward, each
/// with a residual connection and a layer norm before or after it. Submodules: `norm1`, `attention`, `norm2`,
/// `cross`, `norm3`, `mlp`. It is torch.nn.TransformerDecoderLayer with GELU. BlockConfig::pre_norm, by default true,
/// is norm_first there, by default false.
///
/// Source: Vaswani et al. 2017, section 3.1.
class DecoderBlock : public Module {
 public:
  /// Throws: ValueError as Block, for a mechanism without cross-attention (Mechanism::cross), and for a `cross` of
  /// another width than the block.
  DecoderBlock(Module& parent, std::string name, const DecoderBlockConfig& config);

  /// The sequence form.
  ///
  /// Shapes: x [B, N, C], memory [B, M, C] → [B, N, C]; `memory_mask` [B, M] as in Attention::cross.
  Tensor operator()(const Tensor& x, const Tensor& memory, const Tensor& memory_mask = {}, Where where = {}) const;

  /// The states before the first token.
  ///
  /// Throws: ValueError where the self-attention has no step form.
  DecoderBlockState start(const Tensor& memory, const Tensor& memory_mask = {}, Where where = {}) const;
  /// The step form: the next token.
  ///
  /// Shapes: x [B, C] → [B, C].
  Tensor step(DecoderBlockState& state, const Tensor& x, Where where = {}) const;

  const Attention& attention() const { return *attention_; }  ///< its self-attention
  const Attention& cross() const { return *cross_; }          ///< its cross-attention

  std::vector<Setting> settings() const override;

 private:
  template <class Branch>
  Tensor add(const Tensor& x, const LayerNorm& norm, const Branch& branch, Where where) const;

  bool pre_norm_;
  LayerNorm norm1_;
  std::unique_ptr<Attention> attention_;
  LayerNorm norm2_;
  std::unique_ptr<Attention> cross_;
  LayerNorm norm3_;
  FeedForward mlp_;
  Dropout dropout_;
};

}  // namespace linnet::nn
