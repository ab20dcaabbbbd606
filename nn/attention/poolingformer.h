#pragma once

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/ops/attention/longformer_attention.h>
#include <linnet/ops/attention/pooled_attention.h>

namespace linnet::nn {

/// Options that only Poolingformer has.
struct PoolingformerConfig {
  int64_t window = 256;   ///< w1: tokens that a token sees around it at the first level, an even number
  int64_t window2 = 512;  ///< w2: tokens around it whose pools a token sees at the second level
  TokenPooling::Kind pooling = TokenPooling::Kind::convolution;  ///< how the tokens of a pool are combined
  int64_t kernel = 5;                                            ///< κ: tokens of a pool
  int64_t stride = 4;                                            ///< ξ: tokens from a pool to the next
};

/// Poolingformer's attention. Its first level is softmax attention in a window, with the result y; its second level
/// is attention from y to pools of y in a larger window, with the result z. The output is out(y + z). Its submodules
/// are `qkv`, one projection for queries, keys and values, `conv`, the short convolution of `qkv`, if there is one,
/// `qkv2`, the projection of y, and `out`. If pooling is a convolution, the parameters `pool_k` and `pool_v` [κ, D],
/// shared by the heads, weight the tokens of a pool. They start as 0, which gives the mean. The attention maps
/// `window` and `pools` hold the weights of tokens at the two levels.
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

  /// y, the result of the first level, with merged heads.
  Tensor first_level(const Qkv& heads, const LongformerAttentionOptions& options) const;
  LongformerAttentionOptions first_options(const Tensor& padding_mask) const;
  /// For queries of `dtype`, which may be bfloat16 while the parameters are float32.
  PooledAttentionOptions second_options(DType dtype, const Tensor& padding_mask) const;

  PoolingformerConfig options_;
  Linear qkv2_;
  Tensor pool_k_, pool_v_;
};

Mechanism poolingformer_mechanism();  ///< the description of "poolingformer"

}  // namespace linnet::nn
