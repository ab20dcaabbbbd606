#pragma once

#include <linnet/core/device/backend.h>

namespace linnet::cuda {

/// Fastmax in its factorised form as in `Backend`, by fastmax_summary.cuh, if that has kernels for such tensors, in
/// this precision and without dropout; whether it has.
bool fastmax_mma(View o, View denominator, View q, View k, View v, const View* padding_mask,
                 const FastmaxParams& params);
bool fastmax_mma_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                          const View* padding_mask, const FastmaxParams& params);

}  // namespace linnet::cuda
