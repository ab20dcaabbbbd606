#pragma once

#include <optional>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/heads.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/nn/layers/short_convolution.h>
#include <linnet/ops/attention/lsh_attention.h>

namespace linnet::nn {

/// Options that only Reformer has.
struct ReformerConfig {
  int64_t hashes = 4;     ///< R: rounds of hashing
  int64_t chunk = 64;     ///< m: tokens of a chunk
  double scale = 1;       ///< the factor of q·k; reformer-pytorch uses 1/√D
  bool released = false;  ///< LshAttentionOptions::released, with 2N/m buckets, rounded down to a power of two
};

/// Reformer's attention: the keys are the queries, normalised to length 1, and locality-sensitive hashing decides
/// which tokens see which. Its submodules are `qk` and `v`, the projections, `conv`, the short convolution of both,
/// if there is one, and `out`. Hashing uses random rotations. In training they are drawn for each call; in evaluation
/// the buffer `seed` determines them. Its one attention map holds the softmax weights. As in published code, padding
/// tokens add buckets and so change results.
///
/// Cost: time O(R·N·m·C) and memory O(N·C + R·N·H). There is no step form.
/// Source: Kitaev et al. 2020, section 2.
class ReformerAttention : public Attention {
 public:
  ReformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  struct Heads {
    Tensor q, v, buckets;
  };

  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;

  /// Draws the rotations from `draws`.
  Heads project(const Tensor& x, const Tensor& padding_mask, Generator& draws) const;
  Generator evaluation_draws() const;
  LshAttentionOptions options(const Tensor& padding_mask) const;

  ReformerConfig reformer_;
  Linear qk_, v_, out_;
  std::optional<ShortConvolution> conv_;
  Tensor seed_;  // int64 [1] on the CPU
};

Mechanism reformer_mechanism();  ///< the description of "reformer"

}  // namespace linnet::nn
