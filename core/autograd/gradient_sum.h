#pragma once

#include <cstdint>
#include <optional>

#include <linnet/core/autograd/node.h>
#include <linnet/core/tensor.h>

/// How the engine adds up gradients. Internal to core.

namespace linnet {

/// sum = a + b, where sum may be a. Not recorded.
[[gnu::visibility("hidden")]] void add_into(const Tensor& sum, const Tensor& a, const Tensor& b);

/// a + b, recorded like any op, for gradients of gradients.
[[gnu::visibility("hidden")]] Tensor add_gradients(const Tensor& a, const Tensor& b);

/// Adds up the dimensions along which `shape` was broadcast to the gradient's own. Recorded.
[[gnu::visibility("hidden")]] Tensor sum_to_shape(const Tensor& grad, const Shape& shape);

/// The gradients of what one node made, added up. Slices of it that come in order, such as queries, keys and values,
/// are put side by side, so that nothing need be filled with zeros first; those that an op made side by side, in
/// memory as large as the sum, stay where they are.
class [[gnu::visibility("hidden")]] GradientSum {
 public:
  /// The sum so far, undefined before the first gradient, with zeros where no slice was copied.
  Tensor& complete();

  /// Adds the gradient of a slice of what `node` made.
  void add_slice(const Node& node, const SliceOf& slice, const Tensor& gradient);

 private:
  /// Makes `total_`, as far as it is set, elements of its own: where it is memory that slices came in, those that are
  /// still to come must not change.
  void own();

  Tensor total_;
  int dim_ = 0;
  std::optional<int64_t> filled_;  ///< of `dim_`, how far elements are set; all are when empty
};

}  // namespace linnet
