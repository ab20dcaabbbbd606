#include <linnet/nn/data/transforms.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/data/random_choices.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {
namespace {

/// Copies images and calls `use(from, to, image)` for each plane [H, W], with pointers of the elements' type. `image`
/// is the index of the plane's image.
template <class Use>
Tensor each_plane(const char* name, const Tensor& images, const Use& use) {
  if (images.rank() != 4) {
    throw ShapeError(
        fmt::format("{}: inputs{} are no images [B, C, H, W]; reshape them, for example with "
                    "x.reshape({{-1, 1, 28, 28}})",
                    name, to_string(images.shape())));
  }
  if (images.dtype() != DType::float32 && images.dtype() != DType::float64) {
    throw DTypeError(
        fmt::format("{}: images are {}; convert them with to(DType::float32)", name, name_of(images.dtype())));
  }
  const Tensor from = images.to(Device::cpu).contiguous();
  Tensor to = Tensor::empty(from.shape(), from.dtype());
  const int64_t planes = from.size(0) * from.size(1), pixels = from.size(2) * from.size(3);
  const auto walk = [&]<class T>(T) {
    for (int64_t plane = 0; plane < planes; ++plane) {
      use(from.data<T>().data() + plane * pixels, to.mutable_data<T>().data() + plane * pixels,
          static_cast<uint64_t>(plane / from.size(1)));
    }
  };
  if (from.dtype() == DType::float32)
    walk(float{});
  else
    walk(double{});
  return to.to(images.device());
}

}  // namespace

Transform normalize(const std::vector<double>& mean, const std::vector<double>& std, Where where) {
  const Call call("normalize", where);
  if (mean.empty() || mean.size() != std.size()) {
    throw ValueError(
        fmt::format("{} means and {} standard deviations; each channel needs one of both", mean.size(), std.size()));
  }
  for (const double s : std) {
    if (!(s > 0)) throw ValueError(fmt::format("a standard deviation is {}; it must be above 0", s));
  }
  return [mean = tensor(mean), std = tensor(std)](const Tensor& inputs, RandomKey) {
    if (!is_floating(inputs.dtype())) {
      throw DTypeError(
          fmt::format("normalize: inputs are {}; convert them with to(DType::float32)", name_of(inputs.dtype())));
    }
    const int64_t channels = mean.numel();
    if (inputs.rank() < 2 || (channels != 1 && inputs.size(1) != channels)) {
      throw ShapeError(
          fmt::format("normalize: inputs{} do not have {} channels in dim 1", to_string(inputs.shape()), channels));
    }
    Shape shape = Shape::filled(inputs.rank() - 1, 1);
    shape[0] = channels;
    const auto like = [&](const Tensor& x) { return x.reshape(shape).to(inputs.dtype()).to(inputs.device()); };
    return (inputs - like(mean)) / like(std);
  };
}

Transform random_shift(int64_t pixels, Where where) {
  const Call call("random_shift", where);
  if (pixels < 0) throw ValueError(fmt::format("{} pixels; it must be at least 0", pixels));
  return [pixels](const Tensor& images, RandomKey key) {
    return each_plane("random_shift", images, [&](const auto* from, auto* to, uint64_t image) {
      detail::shift_plane(from, to, images.size(2), images.size(3), detail::random_offset(key, 2 * image, pixels),
                          detail::random_offset(key, 2 * image + 1, pixels), [](auto pixel) { return pixel; });
    });
  };
}

Transform random_horizontal_flip(double p, Where where) {
  const Call call("random_horizontal_flip", where);
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("p must be from 0 to 1, not {}", p));
  return [p](const Tensor& images, RandomKey key) {
    return each_plane("random_horizontal_flip", images, [&](const auto* from, auto* to, uint64_t image) {
      const bool flips = random_word(key, image) < keep_threshold(p);
      const int64_t width = images.size(3), count = images.size(2) * width;
      std::copy(from, from + count, to);
      for (auto* row = to; flips && row < to + count; row += width) std::reverse(row, row + width);
    });
  };
}

Batch TransformedDataset::collate(std::span<const int64_t> indices, RandomKey key) const {
  // The data set and each transform draw from streams of their own: the data set may have transforms too.
  const RandomKey own{key.seed, ~key.stream};
  Batch batch = data_.collate(indices, detail::key_of_block(own, transforms_.size()));
  for (size_t i = 0; i < transforms_.size(); ++i) {
    batch.inputs = transforms_[i](batch.inputs, detail::key_of_block(own, i));
  }
  return batch;
}

}  // namespace linnet::nn
