#pragma once

#include <cstdint>
#include <optional>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>

/// How the engine sums gradients. Internal to core.

namespace linnet {

/// Throws unless it is the gradient of a tensor of `shape`, input `i` of an op, or of a part of one.
[[gnu::visibility("hidden")]] void check_shape(const Grad& gradient, const Shape& shape, size_t i);

/// sum += gradient, of one shape: in place where nothing is recorded and nobody else can see it.
[[gnu::visibility("hidden")]] void accumulate(Tensor& sum, const Tensor& gradient);

/// The sum of the gradients of a node's output. Those of parts that arrive in order, such as those of queries, keys
/// and values, are copied side by side, so that no zeros need be written first. Where an op made them side by side,
/// in memory of the sum's size, they are not copied at all. Where the sum is recorded, each becomes a whole one
/// instead.
class [[gnu::visibility("hidden")]] GradientSum {
 public:
  /// Adds a gradient, checked before, of the node's output, which has `shape`.
  void add(const Shape& shape, const Grad& gradient);

  /// The sum so far, with zeros where no part was copied. Undefined before the first gradient.
  Tensor& complete();

 private:
  void add_whole(Tensor gradient);
  void add_part(const Shape& shape, const PartialGrad& part);
  /// Copies the set elements of `total_` where it is the parts' own memory, so that parts that arrive later do not
  /// change.
  void own();

  Tensor total_;
  int dim_ = 0;
  std::optional<int64_t> filled_;  ///< indices of `dim_` below this are set; empty where all are
};

}  // namespace linnet
