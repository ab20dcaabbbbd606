#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <linnet/core/tensor.h>
#include <linnet/nn/data/dataset.h>

/// Changes of a batch's inputs, as in torchvision.transforms. Images are [B, C, H, W], float32 or float64.

namespace linnet::nn {

/// Returns the transformed inputs of a batch. Random transforms draw from `key`.
using Transform = std::function<Tensor(const Tensor& inputs, RandomKey key)>;

/// (x − mean)/std, each with one number for every channel, or one for all.
///
/// Shapes: inputs [B, C, ...], such as images, or rows of C columns.
/// Throws: ValueError unless both have the same length, at least 1, and each std is above 0. For a batch, the
/// transform throws ShapeError for another number of channels, and DTypeError for integers.
Transform normalize(const std::vector<double>& mean, const std::vector<double>& std, Where where = {});

/// Moves each image by a random whole number of pixels, at most `pixels` in each direction, and fills in zeros.
///
/// Throws: ValueError for `pixels` below 0. For a batch that is not images, the transform throws ShapeError or
/// DTypeError.
Transform random_shift(int64_t pixels, Where where = {});

/// Mirrors each image, left to right, with probability p.
///
/// Throws: ValueError unless 0 ≤ p ≤ 1. For a batch that is not images, the transform throws ShapeError or
/// DTypeError.
Transform random_horizontal_flip(double p = 0.5, Where where = {});

/// A data set with its inputs transformed. `data` must outlive it. Each transform draws from its own random stream.
///
///     const nn::TensorDataset images({x, y});  // x is [B, C, H, W]
///     const nn::TransformedDataset train(images, {nn::random_horizontal_flip(), nn::normalize({0.5}, {0.25})});
class TransformedDataset : public Dataset {
 public:
  /// The transforms are applied in their order.
  TransformedDataset(const Dataset& data, std::vector<Transform> transforms)
      : data_(data), transforms_(std::move(transforms)) {}
  TransformedDataset(const Dataset&& data, std::vector<Transform> transforms) = delete;  // it would not outlive this

  int64_t size() const override { return data_.size(); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  const Dataset& data_;
  std::vector<Transform> transforms_;
};

}  // namespace linnet::nn
