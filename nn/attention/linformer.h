#pragma once

#include <linnet/nn/attention/mechanism.h>

namespace linnet::nn {

/// What shares a projection of the tokens. Wang et al. 2020, section 4.
enum class LinformerShare {
  headwise,   ///< the heads of a layer: each layer has an E for keys and an F for values
  key_value,  ///< keys and values too: each layer has one E
  layerwise,  ///< all layers too: the model has one E and passes it to its layers as AttentionConfig::shared
};

/// Options that only Linformer has.
struct LinformerConfig {
  int64_t rank = 0;  ///< K, the number of slots, at most max_tokens; 0 means 64, or max_tokens if that is less
  LinformerShare share = LinformerShare::headwise;  ///< what shares a projection
};

/// Multi-head attention of the queries to K slots, which are sums of all keys and values along the tokens, up to
/// AttentionConfig::max_tokens of them. Its submodules are `qkv`, one projection for queries, keys and values,
/// `conv`, if it has a short convolution, and `out`. It has no causal form, because every slot mixes all tokens.
///
/// Parameters are the projections `e`, of keys, and `f`, of values; only `e` if keys and values share it, and none if
/// it belongs to the model. They start as N(0, σ²) with the variance σ² = 1/max_tokens.
///
/// Its one attention map holds the weights softmax(q·(E k)ᵀ/√D)·F. They may be negative and have any sum.
///
/// Shapes: `e`, `f` [K, max_tokens].
/// Cost: time O(N·K·C) and memory O(N·C).
/// Source: Wang et al. 2020, eq. 7.
class LinformerAttention : public QkvAttention {
 public:
  /// Throws: ValueError as make_attention does; for a max_tokens below 1, for a rank above it, and if the layers
  /// share one projection but `config.shared` is undefined.
  LinformerAttention(Module& parent, std::string name, const AttentionConfig& config);

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask,
                       const Tensor& memory_mask) const override;
  std::unique_ptr<AttentionState> start_cross(const Tensor& memory, const Tensor& memory_mask) const override;
  Tensor forward_cross_step(AttentionState& state, const Tensor& x) const override;

  Tensor e_, f_;
};

Mechanism linformer_mechanism();  ///< the description of "linformer"

}  // namespace linnet::nn
