#pragma once

#include <optional>

#include <linnet/ops/layers/convolution.h>

/// The largest or the mean of each window of an image, as in PyTorch. For whole images: x.mean({2, 3}).
///
/// Dtypes: one of float32 and float64.
/// Gradient: any number of times.
/// Throws: ShapeError for a rank other than 4 (3 in one dim), an empty image, a kernel larger than the padded image,
/// or a dilation by which a window sees only padding; ValueError for options out of range, and for a padding of more
/// than half the kernel; DTypeError for other dtypes.

namespace linnet {

/// A Size2d that may be absent: a number, {rows, columns} or {}.
struct OptionalSize2d : std::optional<Size2d> {
  using std::optional<Size2d>::optional;
  OptionalSize2d() = default;
  constexpr OptionalSize2d(int64_t height, int64_t width) : optional(Size2d(height, width)) {}  ///< both sizes
};

/// Options of max_pool2d and avg_pool2d.
struct Pool2dOptions {
  OptionalSize2d stride = {};  ///< the kernel's size unless set
  Size2d padding = 0;          ///< on each side; it counts as −∞ in max_pool2d, and as 0 in avg_pool2d
  Size2d dilation = 1;         ///< only for max_pool2d
};

/// The largest element of each window; NaN if the window has one. The gradient goes to the first of equal elements.
///
/// Shapes: x [B, C, H, W] → [B, C, H', W'], where H' = ⌊(H + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1.
Tensor max_pool2d(const Tensor& x, const Size2d& kernel, const Pool2dOptions& options = {}, Where where = {});

/// The mean of each window, padding included.
///
/// Shapes: as max_pool2d.
Tensor avg_pool2d(const Tensor& x, const Size2d& kernel, const Pool2dOptions& options = {}, Where where = {});

/// Options of max_pool1d and avg_pool1d; see Pool2dOptions.
struct Pool1dOptions {
  std::optional<int64_t> stride = {};  ///< the kernel's size unless set
  int64_t padding = 0;                 ///< on each side
  int64_t dilation = 1;                ///< the distance of neighbouring taps
};

/// max_pool2d and avg_pool2d along one dim.
///
/// Shapes: x [B, C, L] → [B, C, L'].
Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {}, Where where = {});
Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {}, Where where = {});

/// The mean of each of H'·W' windows that cover the image: window i has the rows ⌊i·H/H'⌋ to ⌈(i + 1)·H/H'⌉ − 1, and
/// likewise the columns. With an output size of 1 it is the mean of the whole image.
///
/// Shapes: x [B, C, H, W] → [B, C, H', W'].
/// Cost: a pass over x, and one over the means of its rows.
Tensor adaptive_avg_pool2d(const Tensor& x, const Size2d& output_size, Where where = {});

}  // namespace linnet
