#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <linnet/core/random/philox.h>
#include <linnet/core/tensor.h>

namespace linnet::nn {

/// What one step trains on: inputs, targets, and any number of further tensors, such as a mask.
///
///     for (auto [x, y] : loader) ...
///     for (auto& batch : loader) loss(batch.inputs, batch.targets, batch.others[0]) ...
struct Batch {
  Tensor inputs;
  Tensor targets;  ///< may be undefined, where there is nothing to predict
  std::vector<Tensor> others = {};
};

/// The first two of a batch, for `auto [x, y] = batch`.
template <size_t I, class B>
  requires std::same_as<std::remove_cvref_t<B>, Batch>
auto&& get(B&& batch) {
  if constexpr (I == 0) {
    return std::forward<B>(batch).inputs;
  } else {
    return std::forward<B>(batch).targets;
  }
}

/// Examples that are numbered from 0.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// How many there are; in a data set that grows, a Loader takes it for an epoch at its start.
  virtual int64_t size() const = 0;
  /// The examples `indices`, stacked along dim 0. `key` serves random augmentation, so that a batch depends on it and
  /// the indices alone. Called from a loader's own thread. Throws IndexError for an example that does not exist.
  virtual Batch collate(std::span<const int64_t> indices, RandomKey key) const = 0;
};

}  // namespace linnet::nn

template <>
struct std::tuple_size<linnet::nn::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, linnet::nn::Batch> {
  using type = linnet::Tensor;
};
