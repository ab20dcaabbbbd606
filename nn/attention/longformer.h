#pragma once

#include <vector>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/ops/attention/longformer_attention.h>

namespace linnet::nn {

/// Options that only Longformer has. LongformerAttentionOptions says what they mean.
struct LongformerConfig {
  int64_t window = 256;                 ///< an even number
  std::vector<int64_t> dilation = {1};  ///< one for all heads, or one for each
  int64_t global_tokens = 1;            ///< how many of the first tokens of a sequence are global
};

/// Longformer's attention: each token sees a window of tokens around it and the global tokens, which see all. Its
/// submodules are `qkv`, one projection for queries, keys and values, `qkv_global`, the same for the attention of
/// global tokens, `conv`, the short convolution of `qkv`, if there is one, and `out`. `qkv_global` starts as a copy
/// of `qkv`. Its one attention map holds the softmax weights.
///
/// Cost: time O(N·w·C) and memory O(N·C). The step form keeps the last w·dilation + 1 tokens and the global ones.
/// Source: Beltagy et al. 2020, section 3.1.
class LongformerAttention : public QkvAttention {
 public:
  LongformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;
  void start_as_copies() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;

  /// For the attention of global tokens: their queries [B, H, G, D], and keys and values of all tokens.
  Qkv project_global(const Tensor& x) const;
  LongformerAttentionOptions options(const Tensor& padding_mask) const;

  LongformerConfig longformer_;
  Linear qkv_global_;
};

Mechanism longformer_mechanism();  ///< the description of "longformer"

}  // namespace linnet::nn
