#pragma once

#include <linnet/core/tensor.h>
#include <linnet/ops/layers/loss.h>

/// What several families of losses share. Internal to ops/.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Losses of elements, reduced.
///
/// Throws: ValueError for batchmean.
Tensor reduce(const Tensor& losses, Reduction reduction);

/// Checks that each target is 1 or −1, for pairs that belong together or not.
///
/// Throws: ValueError.
void check_signs(const Tensor& targets);

}  // namespace detail
}  // namespace linnet
