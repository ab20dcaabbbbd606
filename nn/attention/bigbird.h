#pragma once

#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/attention/bigbird_attention.h>

namespace linnet::nn {

/// Options that only BigBird has.
struct BigBirdConfig {
  int64_t block = 16;         ///< tokens of a block
  int64_t random_blocks = 1;  ///< r: random blocks that each block sees
};

/// BigBird's attention: a block of tokens sees itself, its two neighbours, the first, the last and r random blocks.
/// With at most 5 + 2r blocks it is softmax attention. Its submodules are `qkv`, one projection for queries, keys and
/// values, `conv`, if it has a short convolution, and `out`. The buffer `seed` determines the random blocks, so they
/// are the same in training and evaluation. Its one attention map holds the softmax weights.
///
/// Cost: time O(N·block·(5 + r)·C) and memory O(N·C).
/// Source: Zaheer et al. 2020.
class BigBirdAttention : public QkvAttention {
 public:
  BigBirdAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;

  BigBirdAttentionOptions options(int64_t tokens, const Tensor& padding_mask) const;

  BigBirdConfig bigbird_;
  Tensor seed_;  // int64 [1] on the CPU
};

Mechanism bigbird_mechanism();  ///< the description of "bigbird"

}  // namespace linnet::nn
