#pragma once

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/ops/attention/longformer_attention.h>
#include <linnet/ops/attention/pooled_attention.h>

namespace linnet::nn {

/// Options that only Poolingformer has.
struct PoolingformerConfig {
  int64_t window = 256;   ///< w1: tokens that a token sees around it at the first level, an even number
  int64_t window2 = 512;  ///< w2: tokens over whose pools it looks at the second level
  TokenPooling::Kind pooling = TokenPooling::Kind::convolution;  ///< how a pool is summed up
  int64_t kernel = 5;                                            ///< κ: tokens of a pool
  int64_t stride = 4;                                            ///< ξ: tokens from a pool to the next
};

/// Poolingformer's attention. Its first level is softmax attention in a window, with the result y; its second level
/// is attention from y to pools of y in a larger window, with the result z. The output is out(y + z). Its submodules
/// are `qkv`, one projection for queries, keys and values, `conv`, the short convolution of `qkv`, if there is one,
/// `qkv2`, the projection of y, and `out`. The parameters `pool_k` and `pool_v` [κ, D], shared by the heads, weigh
/// the tokens of a pool where pooling is a convolution. They start as 0, which is the mean. Its attention maps are
/// `window` and `pools`, whose rows hold the weights of tokens at each level.
///
/// Cost: time O(N·(w1 + w2/ξ)·C) and memory O(N·C). There is no step form.
/// Source: Zhang et al. 2021, section 3.
class PoolingformerAttention : public QkvAttention {
 public:
  PoolingformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;

  /// y, with merged heads, of the first level.
  Tensor first_level(const Qkv& heads, const LongformerAttentionOptions& options) const;
  LongformerAttentionOptions first_options(const Tensor& padding_mask) const;
  /// For queries of `dtype`, which may be bfloat16 beside parameters of float32.
  PooledAttentionOptions second_options(DType dtype, const Tensor& padding_mask) const;

  PoolingformerConfig options_;
  Linear qkv2_;
  Tensor pool_k_, pool_v_;
};

Mechanism poolingformer_mechanism();  ///< the description of "poolingformer"

}  // namespace linnet::nn
