#pragma once

#include <cstdint>
#include <span>

#include <linnet/core/tensor.h>

namespace linnet::nn {

/// What one step trains on.
struct Batch {
  Tensor inputs;
  Tensor targets;  ///< may be undefined, where there is nothing to predict
};

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
