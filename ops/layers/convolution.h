#pragma once

#include <concepts>
#include <string_view>

#include <linnet/core/tensor.h>

/// Convolutions as in PyTorch: sums of products, without flipping the kernel.
///
/// Dtypes: one of float32 and float64.
/// Gradient: any number of times.
/// Cost: a product of matrices, [O, C/groups·R·S] and [C/groups·R·S, output pixels], for each group. The elements
/// that the taps see are copied, for a part of the pixels at a time.
/// Throws: ShapeError for shapes that do not fit, such as channels last, and for a kernel larger than the padded
/// input; ValueError for options out of range; DTypeError for other dtypes.

namespace linnet {

/// A height and a width, or one number for both.
struct Size2d {
  int64_t height, width;  ///< rows and columns

  constexpr Size2d(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Size2d(int64_t height_, int64_t width_) : height(height_), width(width_) {}  ///< a height and a width
  friend bool operator==(const Size2d&, const Size2d&) = default;                        ///< both are equal
};

/// How many zeros surround the input on each side, or "same": as many as make the output as large as the input, which
/// needs a stride of 1. Where their number is odd, there is one more after the input than before it.
struct Padding2d {
  Size2d size = 0;    ///< rows and columns
  bool same = false;  ///< "same": `size` is not used

  Padding2d() = default;
  template <std::integral Size>  // so that a 0 is a number, and not a null pointer to a name
  constexpr Padding2d(Size both) : size(static_cast<int64_t>(both)) {}         // NOLINT(google-explicit-constructor)
  constexpr Padding2d(int64_t height, int64_t width) : size(height, width) {}  ///< rows and columns
  constexpr Padding2d(Size2d size_) : size(size_) {}                           // NOLINT(google-explicit-constructor)
  /// Throws: ValueError unless it is "same" or "valid", which is 0.
  Padding2d(const char* mode);  // NOLINT(google-explicit-constructor)
};

/// Options of conv2d, and with numbers of one dim of conv1d.
struct Conv2dOptions {
  Size2d stride = 1;       ///< from one window to the next
  Padding2d padding = {};  ///< a number, {rows, columns} or "same"
  Size2d dilation = 1;     ///< the distance of neighbouring taps in the input
  int64_t groups = 1;      ///< output channels of a group see the input channels of that group alone
};

/// y[b, o, i, j] = bias[o] + Σ_{c, r, s} weight[o, c, r, s] · x[b, c, i·stride + r·dilation − padding, …], where x is
/// 0 outside. An undefined bias stands for 0.
///
/// Shapes: x [B, C, H, W], weight [O, C/groups, R, S], bias [O] → [B, O, H', W'], where
/// H' = ⌊(H + 2·padding − dilation·(R − 1) − 1)/stride⌋ + 1.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {},
              Where where = {});

/// Options of conv1d.
struct Conv1dOptions {
  int64_t stride = 1;      ///< from one window to the next
  Padding2d padding = {};  ///< a number, or "same"
  int64_t dilation = 1;    ///< the distance of neighbouring taps
  int64_t groups = 1;      ///< channels see those of their group alone
};

/// conv2d along one dim.
///
/// Shapes: x [B, C, L], weight [O, C/groups, S], bias [O] → [B, O, L'].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dOptions& options = {},
              Where where = {});

/// Options of conv_transpose2d. Those that Conv2dOptions has too describe the convolution that is transposed.
struct ConvTranspose2dOptions {
  Size2d stride = 1;          ///< from one window to the next
  Size2d padding = 0;         ///< rows and columns removed from each side of the output
  Size2d output_padding = 0;  ///< added to the output's size at its end, below the stride or the dilation
  int64_t groups = 1;         ///< channels see those of their group alone
  Size2d dilation = 1;        ///< the distance of neighbouring taps
};

/// The transpose of conv2d as a linear map, which is conv2d's gradient to its input: each pixel of x adds
/// weight · x to a window of the output.
///
/// Shapes: x [B, C, H, W], weight [C, O/groups, R, S], bias [O] → [B, O, H', W'], where
/// H' = (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {}, Where where = {});

}  // namespace linnet
