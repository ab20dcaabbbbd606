#pragma once

#include <linnet/core/device/backend.h>

namespace linnet::cuda {

/// Fastmax in its factorised form as in `Backend`, on tensor cores. Returns false and does nothing if it has no
/// kernels for the call: with dropout, or for this dtype, width or precision.
bool fastmax_mma(View o, View denominator, View q, View k, View v, const View* padding_mask,
                 const FastmaxParams& params);
bool fastmax_mma_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                          const View* padding_mask, const FastmaxParams& params);

}  // namespace linnet::cuda
