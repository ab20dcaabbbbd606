#pragma once

#include <cstdint>
#include <optional>

#include <linnet/core/autograd/node.h>
#include <linnet/core/tensor.h>

/// How the engine sums gradients. Internal to core.

namespace linnet {

/// sum = a + b, where sum may be a. Not recorded.
[[gnu::visibility("hidden")]] void add_into(const Tensor& sum, const Tensor& a, const Tensor& b);

/// a + b, recorded like any op, for gradients of gradients.
[[gnu::visibility("hidden")]] Tensor add_gradients(const Tensor& a, const Tensor& b);

/// Sums the gradient over the dims in which `shape` was broadcast to the gradient's shape. Recorded.
[[gnu::visibility("hidden")]] Tensor sum_to_shape(const Tensor& grad, const Shape& shape);

/// The sum of the gradients of a node's output. Gradients of slices that arrive in order, such as those of queries,
/// keys and values, are copied side by side, so that no zeros need be written first. Where an op made them side by
/// side, in memory of the sum's size, they are not copied at all.
class [[gnu::visibility("hidden")]] GradientSum {
 public:
  /// The sum so far, with zeros where no slice was copied. Undefined before the first gradient.
  Tensor& complete();

  /// Adds the gradient of a slice of the node's output.
  void add_slice(const Node& node, const SliceOf& slice, const Tensor& gradient);

 private:
  /// Copies the set elements of `total_` where it is the slices' own memory, so that slices that arrive later do not
  /// change.
  void own();

  Tensor total_;
  int dim_ = 0;
  std::optional<int64_t> filled_;  ///< indices of `dim_` below this are set; empty where all are
};

}  // namespace linnet
