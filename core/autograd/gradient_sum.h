#pragma once

#include <cstdint>
#include <optional>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>

/// How the engine sums gradients. Internal to core.

namespace linnet {

/// Throws unless `gradient` fits input `i` of an op, which has `shape`, or a part of that input.
[[gnu::visibility("hidden")]] void check_shape(const Grad& gradient, const Shape& shape, size_t i);

/// sum += gradient; both have the same shape. It works in place if nothing is recorded and no other tensor shares the
/// elements of `sum`.
[[gnu::visibility("hidden")]] void accumulate(Tensor& sum, const Tensor& gradient);

/// The sum of the gradients of a node's output. Gradients of parts that arrive in order, such as those of queries,
/// keys and values, are copied side by side, so that no zeros need be written first. If an op made them side by side,
/// in memory of the sum's size, they are not copied at all. If the sum is recorded, each partial gradient is instead
/// extended with zeros to a whole one.
class [[gnu::visibility("hidden")]] GradientSum {
 public:
  /// Adds a gradient of the node's output, which has `shape`. The caller has checked the gradient.
  void add(const Shape& shape, const Grad& gradient);

  /// The sum so far, with zeros where no part was copied. Undefined before the first gradient.
  Tensor& complete();

 private:
  void add_whole(Tensor gradient);
  void add_part(const Shape& shape, const PartialGrad& part);
  /// If `total_` is memory that the parts share, copies its filled elements to new memory. A write to it would
  /// otherwise change parts that arrive later.
  void own();

  Tensor total_;
  int dim_ = 0;
  std::optional<int64_t> filled_;  ///< only indices of `dim_` below this are set; empty if all are
};

}  // namespace linnet
