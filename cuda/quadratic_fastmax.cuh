#pragma once

#include <linnet/core/backend.h>

namespace linnet::cuda {

/// Backend::fastmax and fastmax_backward in their quadratic form.
void quadratic_fastmax(View o, View normaliser, View q, View k, View v, const View* keep,
                       const FastmaxKernel& kernel);
void quadratic_fastmax_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                                const View* keep, const FastmaxKernel& kernel);

}  // namespace linnet::cuda
