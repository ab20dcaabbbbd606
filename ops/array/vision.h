#pragma once

#include <cstdint>
#include <vector>

#include <linnet/core/tensor.h>

/// Changes of the size of images, as in PyTorch.
///
/// Gradient: any number of times.

namespace linnet {

/// How `interpolate` computes an element from its neighbours in x. The word for three dims is the same as for one, so
/// `linear` is PyTorch's "linear", "bilinear" and "trilinear".
enum class InterpolateMode : uint8_t {
  nearest,        ///< the element at ⌊i·in/out⌋
  nearest_exact,  ///< the nearest element: that at ⌊(i + ½)·in/out⌋
  linear,         ///< the weighted mean of the 2 neighbours along each dim
  cubic           ///< 4 neighbours along each dim: PyTorch's "bicubic", whose weights have a = −¾
};

/// Options of `interpolate`.
struct InterpolateOptions {
  std::vector<int64_t> size = {};  ///< of the result's dims after [B, C]; one number is for all of them
  std::vector<double> scale_factor =
      {};  ///< instead of `size`: the result has ⌊in·scale_factor⌋ elements along a dim
  InterpolateMode mode = InterpolateMode::nearest;  ///< how elements are computed
  /// Whether the first and the last elements of x and of the result are at the same places. Without it their outer
  /// edges are. Only for linear and cubic.
  bool align_corners = false;
};

/// x with its dims after [B, C] enlarged or reduced. Without averaging, a reduction skips elements: PyTorch's
/// antialias is absent.
///
///     const Tensor large = interpolate(x, {.scale_factor = {2}, .mode = InterpolateMode::linear});
///
/// Shapes: x [B, C, ...] with one dim or more → [B, C, ...].
/// Dtypes: floating; nearest takes all.
/// Cost: for each dim, one pass for each neighbour; backward, the same.
/// Throws: ShapeError for other shapes and empty dims; ValueError for options that do not fit; DTypeError.
/// Source: Keys 1981, eq. 15, for cubic.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where = {});

/// Channels become pixels: out[b, c, h·r + i, w·r + j] = x[b, c·r² + i·r + j, h, w], where r is `upscale_factor`.
///
/// Shapes: x [B, C·r², H, W] → [B, C, H·r, W·r].
/// Cost: one copy.
/// Throws: ShapeError for other shapes; ValueError unless r ≥ 1.
/// Source: Shi et al. 2016, eq. 4.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Where where = {});
/// The inverse of pixel_shuffle: [B, C, H·r, W·r] → [B, C·r², H, W].
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Where where = {});

}  // namespace linnet
