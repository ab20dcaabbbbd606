#pragma once

#include <linnet/core/tensor.h>

/// The ranges of a KeySet.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Query i sees keys [begin[i], end[i]), none where end[i] < begin[i].
///
/// Shapes: begin and end [B or 1, H or 1, N] → [B or 1, H or 1, N, 2].
/// Dtypes: int64.
Tensor key_ranges(const Tensor& begin, const Tensor& end);

/// Query i of N tokens sees keys from i − before to i + after, but none before `first`.
///
/// Shapes: [1, 1, N, 2].
Tensor window_ranges(int64_t tokens, int64_t before, int64_t after, int64_t first, Device device);

}  // namespace detail
}  // namespace linnet
