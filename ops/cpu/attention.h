#pragma once

#include <linnet/core/backend.h>

/// Quadratic attention as kernels of their own (attention.cpp), and as the form of Fastmax that is the faster one for
/// short sequences (quadratic_fastmax.cpp).

namespace linnet::cpu::LINNET_ISA {

void attention(View o, View normaliser, View q, View k, View v, const View* keep, AttentionOptions options);
void attention_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                        const View* keep, AttentionOptions options);

void quadratic_fastmax(const View& o, const View& normaliser, const View& q, const View& k, const View& v,
                       const View* keep, const FastmaxKernel& kernel);
void quadratic_fastmax_backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                                const View& normaliser, const View& q, const View& k, const View& v, const View* keep,
                                const FastmaxKernel& kernel);

}  // namespace linnet::cpu::LINNET_ISA
