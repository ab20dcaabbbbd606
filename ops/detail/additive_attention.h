#pragma once

#include <vector>

#include <linnet/ops/fastformer/fastformer.h>

namespace linnet::detail {

// Not hidden: tests, which may link a shared library, compare the two.

/// additive_attention composed of other ops, with every option: the oracle of the fused op. The arguments have been
/// checked.
Tensor composed_additive_attention(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
                                   const AdditiveAttentionOptions& options);

/// The weights of composed_additive_attention without dropout, as additive_attention_weights returns them.
std::vector<Tensor> composed_additive_weights(const std::vector<Tensor>& projections,
                                              const std::vector<AdditiveStage>& stages,
                                              const AdditiveAttentionOptions& options);

/// additive_attention in one op, for three projections with logits per head and product or add. The arguments have
/// been checked, except for dtype and device.
Tensor fused_additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q,
                                const Tensor& w_k, const AdditiveAttentionOptions& options);

}  // namespace linnet::detail
