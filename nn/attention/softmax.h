#pragma once

#include <linnet/nn/attention/mechanism.h>

namespace linnet::nn {

/// Multi-head softmax attention. Its submodules are `qkv`, one projection for queries, keys and values, `conv`, if it
/// has a short convolution, and `out`. Its one attention map holds the softmax weights.
///
/// Cost: time O(N²·C) and memory O(N·C). The step form keeps all keys and values.
/// Source: Vaswani et al. 2017, eq. 1.
class SoftmaxAttention : public QkvAttention {
 public:
  SoftmaxAttention(Module& parent, std::string name, const AttentionConfig& config);

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask,
                       const Tensor& memory_mask) const override;
  std::unique_ptr<AttentionState> start_cross(const Tensor& memory, const Tensor& memory_mask) const override;
  Tensor forward_cross_step(AttentionState& state, const Tensor& x) const override;

  /// Queries, keys and values of tokens x [B, N, C], rotated when positions are rotary.
  Qkv project(const Tensor& x, const Tensor& padding_mask) const;
};

Mechanism softmax_mechanism();  ///< the description of "softmax"

}  // namespace linnet::nn
