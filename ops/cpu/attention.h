#pragma once

#include <linnet/core/backend.h>

/// Quadratic attention as kernels of their own, and as the form of Fastmax that is the faster one for short
/// sequences: there queries and keys may be standardised first (eqs. 5 and 6), anew in backward, so that nothing of
/// it is kept.

namespace linnet::cpu::LINNET_ISA {

void attention(const View& o, const View& normaliser, const View& q, const View& k, const View& v, const View* keep,
               const AttentionOptions& options, bool standardised);
void attention_backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                        const View& normaliser, const View& q, const View& k, const View& v, const View* keep,
                        const AttentionOptions& options, bool standardised);

}  // namespace linnet::cpu::LINNET_ISA
