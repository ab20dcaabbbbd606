#pragma once

#include <vector>

#include <linnet/ops/fastformer/fastformer.h>

namespace linnet::detail {

// Not hidden: tests, which may link a shared library, hold one against the other.

/// additive_attention composed of other ops, for every option: what the fused op is tested against. Its
/// arguments have been checked.
Tensor composed_additive_attention(const std::vector<Tensor>& columns, const std::vector<AdditiveStage>& stages,
                                   const AdditiveAttentionOptions& options);

/// The weights in it, without dropout: one tensor a stage, as additive_attention_weights says.
std::vector<Tensor> composed_additive_weights(const std::vector<Tensor>& columns,
                                              const std::vector<AdditiveStage>& stages,
                                              const AdditiveAttentionOptions& options);

/// Three columns with weights per head, product or add, in one op. Its arguments have been checked but for dtype and
/// device.
Tensor fused_additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q,
                                const Tensor& w_k, const AdditiveAttentionOptions& options);

}  // namespace linnet::detail
