#pragma once

#include <memory>

#include <linnet/nn/attention/attention.h>
#include <linnet/nn/layers/dropout.h>
#include <linnet/nn/layers/feed_forward.h>
#include <linnet/nn/layers/norm.h>

namespace linnet::nn {

/// Options of a Transformer layer.
struct BlockConfig {
  AttentionConfig attention = {};  ///< its `width` and `bias` are those of the whole block
  int64_t hidden = 0;              ///< width of the feed-forward part's hidden layer; 0 means 4·width
  double dropout = 0;              ///< of both branches, before they are added
  bool pre_norm = true;            ///< x + f(norm(x)), instead of norm(x + f(x))
  Gelu gelu = Gelu::erf;           ///< of the feed-forward part
  double activation_dropout = 0;   ///< inside the feed-forward part, after its activation
};

/// A Transformer layer: attention and feed-forward, each with a residual connection and a layer norm before or after
/// it. Submodules: `norm1`, `attention`, `norm2`, `mlp`.
///
/// Source: Vaswani et al. 2017, section 3.1.
class Block : public Module {
 public:
  /// Throws: ValueError as make_attention does, for dropouts outside [0, 1], and for `hidden` below 0.
  Block(Module& parent, std::string name, const BlockConfig& config);

  /// The sequence form.
  ///
  /// Shapes: x [B, N, C] → [B, N, C]; `padding_mask` as in Attention.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;
  /// The step form: the next token.
  ///
  /// Shapes: x [B, C] → [B, C].
  Tensor step(AttentionState& state, const Tensor& x, Where where = {}) const;

  const Attention& attention() const { return *attention_; }  ///< its mechanism, for maps and states

  std::vector<Setting> settings() const override;

 private:
  template <class Attend>
  Tensor apply(const Tensor& x, const Attend& attend, Where where) const;

  bool pre_norm_;
  LayerNorm norm1_;
  std::unique_ptr<Attention> attention_;
  LayerNorm norm2_;
  FeedForward mlp_;
  Dropout dropout_;
};

}  // namespace linnet::nn

namespace linnet::detail {

/// The width of the hidden layer of a block's feed-forward part. `label` is the block's.
///
/// Throws: ValueError for a `hidden` below 0.
int64_t hidden_width(const char* label, const nn::BlockConfig& config);

/// Checks that the width was set. Models call it first, because errors of their layers would not name the option.
///
/// Throws: ValueError for a width below 1.
void check_width(const char* model, const nn::BlockConfig& config);

}  // namespace linnet::detail
