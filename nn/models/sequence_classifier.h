#pragma once

#include <memory>

#include <linnet/nn/layers/attention_pooling.h>
#include <linnet/nn/layers/embedding.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/nn/models/block.h>

namespace linnet::nn {

/// How a sequence classifier pools the tokens that are not padding to one vector.
enum class Pooling : uint8_t {
  mean,         ///< their mean
  padded_mean,  ///< their sum divided by `max_tokens`, as in the public code of the Long Range Arena's PyTorch runs
  attention,    ///< AttentionPooling
  first,        ///< the first token; 0 if that is padding
};

/// Options of a sequence classifier.
struct SequenceClassifierConfig {
  int64_t vocabulary = 0;     ///< number of ids
  int64_t classes = 2;        ///< number of classes
  int64_t layers = 1;         ///< number of blocks
  bool share_layers = false;  ///< one block, applied `layers` times (Lan et al. 2020, ALBERT)
  /// Length of the longest sequence. Without learned positions and Pooling::padded_mean, weights load into a model
  /// with another.
  int64_t max_tokens = 0;
  /// Options of every layer. The model sets `causal` to false, `rotary` from `positions`, `max_tokens` and `shared`.
  /// Its `dropout` also applies to the embeddings.
  BlockConfig block = {};
  Positions positions = Positions::learned;  ///< how it knows the order of tokens
  Pooling pooling = Pooling::mean;           ///< how tokens become one vector
  int64_t head_hidden = 0;                   ///< width of the head's hidden layer; 0 means 2·width
  bool linear_head = false;                  ///< the head is one linear layer, without a hidden layer
  /// Width of the token embeddings; 0 means the model's width. If it is another, a linear map to the model's follows.
  int64_t embedding_width = 0;
  bool pairs = false;  ///< whether an example is two sequences
};

/// A classifier of sequences of token ids, or of pairs of them: token and position embeddings, blocks, a final norm,
/// pooling to one vector, and a head fc2(relu(fc1(x))), or fc2(x) with `linear_head`. Both sequences of a pair go
/// through the same encoder, and their vectors a and b to the head as [a, b, a∘b, a − b].
///
/// Padding must be at the end, because positions count from the first token. The ids of padding tokens do not change
/// results at all. The number of padding tokens changes only rounding, except with bigbird and reformer, whose blocks
/// depend on it. In training it also changes which numbers dropout drops.
///
/// Embeddings and learned positions start as N(0, 0.02²). Submodules: `tok`, `map` with an embedding_width, `pos`,
/// `blocks.<i>`, `norm`, `pool` with Pooling::attention, `fc1` without `linear_head`, `fc2`. Parameter, if the
/// attentions share one: `shared_attention`.
///
///     const nn::SequenceClassifierConfig config{
///         .vocabulary = 257, .max_tokens = 4096, .block = {.attention = {.width = 64, .heads = 2}}};
///     nn::SequenceClassifier model(rng, config);
///     const Tensor logits = model(inputs, ne(inputs, 0));  // where id 0 is padding
///
/// Source: Xiong et al. 2021 (Nyströmformer) and Chen et al. 2021 (Skyformer), for Tay et al. 2021, Long Range Arena.
class SequenceClassifier : public Module {
 public:
  /// Throws: ValueError for a vocabulary, classes, layers or max_tokens below 1, for `head_hidden` or
  /// `embedding_width` below 0, and for a `head_hidden` with `linear_head`; as Block.
  SequenceClassifier(Generator& rng, const SequenceClassifierConfig& config, DType dtype = DType::float32,
                     Device device = Device::cpu);

  /// Logits of the classes.
  ///
  /// Shapes: ids [B, N], `padding_mask` [B, N] → [B, classes]. N is from 1 to max_tokens.
  /// Dtypes: ids are int64 or int32, `padding_mask` is bool, false where a token is padding; logits have dtype().
  /// Cost: that of the layers.
  /// Throws: ShapeError for other shapes and for a mask that is not bool; IndexError for an id outside the
  /// vocabulary, padding's too; ValueError for more than max_tokens tokens, and for a model of pairs.
  Tensor operator()(const Tensor& ids, const Tensor& padding_mask = {}, Where where = {}) const;
  /// Logits of the classes of pairs. The sequences of a pair may have different lengths.
  ///
  /// Shapes: ids1, padding_mask1 [B, N1], ids2, padding_mask2 [B, N2] → [B, classes].
  /// Throws: as above; ValueError for a model of single sequences.
  Tensor operator()(const Tensor& ids1, const Tensor& padding_mask1, const Tensor& ids2, const Tensor& padding_mask2,
                    Where where = {}) const;

  /// The pooled vectors; 0 where every token is padding.
  ///
  /// Shapes: ids [B, N], `padding_mask` [B, N] → [B, width].
  /// Throws: as operator().
  Tensor encode(const Tensor& ids, const Tensor& padding_mask = {}, Where where = {}) const;

  const SequenceClassifierConfig& config() const { return config_; }  ///< the options, with those that the model sets
  const Tensor& embeddings() const { return tok_.weight(); }          ///< of the ids: [vocabulary, embedding_width]

  std::vector<Setting> settings() const override;

 private:
  const Block& layer(int64_t i) const { return blocks_[config_.share_layers ? 0 : i]; }
  void check(const Tensor& ids, const Tensor& padding_mask, Where where) const;
  Tensor pool(const Tensor& x, const Tensor& padding_mask) const;
  Tensor head(const Tensor& x, Where where) const;

  SequenceClassifierConfig config_;
  Embedding tok_;
  std::unique_ptr<Linear> map_;  // null if embeddings have the model's width
  PositionEmbedding pos_;
  Dropout dropout_;
  ModuleList<Block> blocks_;  // only one with share_layers
  LayerNorm norm_;
  std::unique_ptr<AttentionPooling> pool_;  // null without Pooling::attention
  std::unique_ptr<Linear> fc1_;             // null with linear_head
  Linear fc2_;
};

}  // namespace linnet::nn
