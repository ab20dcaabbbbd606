#pragma once

#include <linnet/ops/layers/convolution.h>

/// Shared by convolutions and poolings. Internal to ops/.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Throws: ValueError unless both numbers are at least `least`, and so small that their products with sizes do not
/// overflow.
void check_at_least(const char* name, const Size2d& size, int64_t least);

/// How many windows of `taps` pixels, `dilation` apart, fit into `size` pixels plus `padding` more.
///
/// Throws: ShapeError for none.
int64_t windows(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation);

}  // namespace detail
}  // namespace linnet
