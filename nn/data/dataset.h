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

/// The data of one training step: inputs, targets, and any number of further tensors, such as a mask.
///
///     for (auto [x, y] : loader) backward(cross_entropy(model(x), y));
///     for (auto& batch : loader) backward(cross_entropy(model(batch.inputs, batch.others[0]), batch.targets));
struct Batch {
  Tensor inputs;                    ///< of the model
  Tensor targets;                   ///< undefined where there is nothing to predict
  std::vector<Tensor> others = {};  ///< such as masks
};

/// The inputs and targets of a batch, for `auto [x, y] = batch`.
template <size_t I, class B>
  requires std::same_as<std::remove_cvref_t<B>, Batch>
auto&& get(B&& batch) {
  if constexpr (I == 0) {
    return std::forward<B>(batch).inputs;
  } else {
    return std::forward<B>(batch).targets;
  }
}

/// A list of examples, numbered from 0.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of examples. A data set may grow: a Loader reads the number at the start of each epoch.
  virtual int64_t size() const = 0;
  /// The examples `indices`, stacked along dim 0. Random augmentation draws from `key`, so that a batch depends only
  /// on the key and the indices. A loader calls this from its own threads. With several workers, several calls run
  /// at the same time.
  ///
  /// Throws: IndexError for an example that does not exist.
  virtual Batch collate(std::span<const int64_t> indices, RandomKey key) const = 0;
};

}  // namespace linnet::nn

template <>
struct std::tuple_size<linnet::nn::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, linnet::nn::Batch> {
  using type = linnet::Tensor;
};
