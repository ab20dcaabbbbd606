#pragma once

#include <linnet/nn/attention/fastmax.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/attention/linear_attention.h>

namespace linnet::nn {

/// Options that only linear attention has.
struct LinearAttentionConfig {
  FastmaxDropout dropout_kind = FastmaxDropout::token;  ///< token drops whole queries and keys; others are refused
};

/// Multi-head linear attention with the features elu(x) + 1. Its submodules are `qkv`, one projection for queries,
/// keys and values, `conv`, if it has a short convolution, and `out`. Its one attention map holds the weights
/// φ(q_i)·φ(k_j), divided by their sum over the keys.
///
/// Cost: time O(N·C·D) and memory O(N·C). The step form keeps S = Σ φ(k)·[v, 1]ᵀ for each head, whose size does not
/// grow with the text.
/// Source: Katharopoulos et al. 2020, eqs. 4–12.
class LinearAttention : public QkvAttention {
 public:
  LinearAttention(Module& parent, std::string name, const AttentionConfig& config);

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask,
                       const Tensor& memory_mask) const override;
  std::unique_ptr<AttentionState> start_cross(const Tensor& memory, const Tensor& memory_mask) const override;
  Tensor forward_cross_step(AttentionState& state, const Tensor& x) const override;
};

Mechanism linear_mechanism();  ///< the description of "linear"

}  // namespace linnet::nn
