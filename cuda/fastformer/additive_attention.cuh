#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>

namespace linnet::cuda {

/// Whether the kernels of additive_attention.cu can take a call: if it is not causal, and the columns of a head fit
/// the lanes of one warp.
bool is_whole_additive(int64_t heads, int64_t width, bool causal);

// The functions of the kernel table, for such calls.
int64_t whole_additive_pools(int64_t heads, int64_t width);
void whole_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& in);
void whole_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                       const AdditiveAttentionInputs& in);

}  // namespace linnet::cuda
