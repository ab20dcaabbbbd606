#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>

namespace linnet::cuda {

/// Additive attention over whole sequences, not causal, where lanes of one warp can hold a head's columns.
bool is_whole_additive(int64_t heads, int64_t width, bool causal);

// As in the kernel table, for these.
int64_t whole_additive_pools(int64_t heads, int64_t width);
void whole_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& problem);
void whole_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                       const AdditiveAttentionInputs& problem);

}  // namespace linnet::cuda
