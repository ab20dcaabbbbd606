#pragma once

#include <linnet/nn/attention/mechanism.h>

namespace linnet::nn {

/// Who shares a projection of the tokens. Wang et al. 2020, section 4.
enum class LinformerShare {
  headwise,   ///< the heads: E for keys and F for values in each layer
  key_value,  ///< keys and values too: one E in each layer
  layerwise,  ///< all layers: one E in the model, which hands it to them as AttentionConfig::shared
};

/// Options that only Linformer has.
struct LinformerConfig {
  int64_t rank = 0;  ///< K, the number of slots, at most max_tokens; 0 stands for 64, or max_tokens if that is less
  LinformerShare share = LinformerShare::headwise;  ///< who shares a projection
};

/// Multi-head attention of the queries to K slots, which are sums of all keys and values along the tokens, up to
/// AttentionConfig::max_tokens of them. Its submodules are `qkv`, one projection for queries, keys and values,
/// `conv`, if it has a short convolution, and `out`. It has no causal form, because every slot mixes all tokens.
///
/// Parameters are the projections `e`, of keys, and `f`, of values; `e` alone where keys and values share it, and
/// neither where it belongs to the model. They start as N(0, 1/max_tokens), by variance.
///
/// Its one attention map holds the weights softmax(q·(E k)ᵀ/√D)·F, which may be negative and have any sum.
///
/// Shapes: `e`, `f` [K, max_tokens].
/// Cost: time O(N·K·C) and memory O(N·C).
/// Source: Wang et al. 2020, eq. 7.
class LinformerAttention : public QkvAttention {
 public:
  /// Throws: ValueError as make_attention does; for a max_tokens below 1, a rank above it, and where the layers share
  /// one projection but `config.shared` is none.
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
