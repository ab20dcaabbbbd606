#pragma once

#include <filesystem>

#include <linnet/nn/attention/fastformer.h>
#include <linnet/nn/layers/attention_pooling.h>
#include <linnet/nn/layers/dropout.h>
#include <linnet/nn/layers/feed_forward.h>
#include <linnet/nn/layers/norm.h>
#include <linnet/nn/layers/positions.h>

namespace linnet::nn {

/// Options of the encoder. The defaults are those of the published implementation.
struct FastformerEncoderConfig {
  int64_t width = 256;        ///< numbers of a token
  int64_t heads = 16;         ///< divides `width`
  int64_t hidden = 256;       ///< width of the feed-forward part's hidden layer
  int64_t layers = 2;         ///< number of layers
  int64_t max_tokens = 512;   ///< length of the longest sequence, since positions are learned
  double dropout = 0.2;       ///< of the embeddings and of both branches
  bool share_layers = false;  ///< one layer, applied `layers` times
  double eps = 1e-12;         ///< of the layer norms
  bool released = true;       ///< logits and pooling as in the published implementation; false: as in the paper
};

/// A layer of the encoder: norm1(x + out(attention(x))), then norm2(h + mlp(h)).
class FastformerLayer : public Module {
 public:
  FastformerLayer(Module& parent, std::string name, const FastformerEncoderConfig& config);
  /// Shapes: x [B, N, width] → [B, N, width]; `padding_mask` as in Attention.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask, Where where = {}) const;

 private:
  FastformerAttention attention_;
  Linear out_;
  LayerNorm norm1_;
  FeedForward mlp_;
  LayerNorm norm2_;
  Dropout dropout_;
};

/// Fastformer's encoder as its authors released it. The sum of embeddings and learned positions is normalised, goes
/// through layers with a normalisation after each branch, and is pooled to one vector. Submodules: `pos`, `norm`,
/// `layers.<i>` with `attention`, `out`, `norm1`, `mlp` and `norm2`, and `pool`.
///
/// Source: Wu et al. 2021.
class FastformerEncoder : public Module {
 public:
  /// A whole model, or a submodule of `parent`.
  ///
  /// Throws: ValueError as FastformerAttention does, and for layers below 1.
  explicit FastformerEncoder(Generator& rng, const FastformerEncoderConfig& config = {}, DType dtype = DType::float32,
                             Device device = Device::cpu);
  FastformerEncoder(Module& parent, std::string name, const FastformerEncoderConfig& config = {});

  /// One vector for each sequence of embeddings; 0 for a sequence of only padding.
  ///
  /// Shapes: x [B, N, width], `padding_mask` [B, N] → [B, width].
  /// Dtypes: dtype(). `padding_mask` is bool, false where a token is padding.
  /// Throws: ValueError for more than max_tokens tokens.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;
  /// The tokens before pooling.
  ///
  /// Shapes: x [B, N, width] → [B, N, width].
  Tensor tokens(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  const FastformerEncoderConfig& config() const { return config_; }  ///< the options given to the constructor

  std::vector<Setting> settings() const override;

 private:
  void add_layers();

  FastformerEncoderConfig config_;
  PositionEmbedding pos_{*this, "pos", Positions::learned, config_.max_tokens, config_.width, 0.02};
  LayerNorm norm_{*this, "norm", config_.width, {.eps = config_.eps}};
  Dropout dropout_{*this, "dropout", config_.dropout};
  ModuleList<FastformerLayer> layers_{*this, "layers"};
  AttentionPooling pool_{*this, "pool", config_.width, config_.released};
};

/// Copies the weights of the published implementation from a safetensors file, in the encoder's dtype. The file's
/// names correspond to these names of the encoder, with the same shapes:
///
/// | file | encoder |
/// |---|---|
/// | position_embeddings.weight | pos.weight |
/// | LayerNorm.{weight,bias} | norm |
/// | encoders.<i>.attention.self.{query,key}.{weight,bias} | layers.<i>.attention.{query,key} |
/// | encoders.<i>.attention.self.{query,key}_att.{weight,bias} | layers.<i>.attention.{w_q,w_k}, {w_q,w_k}_bias |
/// | encoders.<i>.attention.self.transform.{weight,bias} | layers.<i>.attention.out |
/// | encoders.<i>.attention.output.dense.{weight,bias} | layers.<i>.out |
/// | encoders.<i>.attention.output.LayerNorm.{weight,bias} | layers.<i>.norm1 |
/// | encoders.<i>.intermediate.dense.{weight,bias} | layers.<i>.mlp.fc1 |
/// | encoders.<i>.output.dense.{weight,bias} | layers.<i>.mlp.fc2 |
/// | encoders.<i>.output.LayerNorm.{weight,bias} | layers.<i>.norm2 |
/// | poolers.0.att_fc{1,2}.{weight,bias} | pool.fc{1,2} |
///
/// Names in the file that start with `ignored` are ignored, unless it is empty.
///
/// Throws: ValueError, before anything is copied, with all names that are missing, unexpected or of another shape;
/// IoError for a file that is not a safetensors file.
void load_released_fastformer(FastformerEncoder& encoder, const std::filesystem::path& path,
                              const std::string& ignored = "", Where where = {});

}  // namespace linnet::nn
