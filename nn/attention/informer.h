#pragma once

#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/attention/informer_attention.h>

namespace linnet::nn {

/// Options that only Informer has.
struct InformerConfig {
  int64_t factor = 5;   ///< c of u = min(N, c·⌈ln N⌉), the number of queries that get softmax attention
  int64_t queries = 0;  ///< u itself, where it is not 0
};

/// Multi-head ProbSparse attention: softmax attention for u of N queries, the mean of the values for the others. Its
/// submodules are `qkv`, one projection for queries, keys and values, `conv`, if it has a short convolution, and
/// `out`. It has no causal form, because whether a query is chosen depends on later ones.
///
/// The queries are chosen by their scores with sampled keys. In training the sample is drawn from the model's
/// generator in each call. In evaluation it depends only on the number of tokens and on the buffer `seed`, an int64
/// on the CPU that is drawn when the layer is built.
///
/// Its one attention map holds the softmax weights of the chosen queries, and 1/N in the other rows. In training the
/// map shows the queries that the next call chooses.
///
/// Shapes: `seed` [1].
/// Cost: time O(N·C·u) and memory O(N·C).
/// Source: Zhou et al. 2021, eqs. 3 and 4.
class InformerAttention : public QkvAttention {
 public:
  /// Throws: ValueError as make_attention does, and for a factor below 1 and fewer than 0 queries.
  InformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;

  InformerAttentionOptions call_options(const Tensor& padding_mask, Generator& draws) const;
  /// The generator for evaluation.
  Generator evaluation_draws() const;

  Tensor seed_;
};

Mechanism informer_mechanism();  ///< the description of "informer"

}  // namespace linnet::nn
