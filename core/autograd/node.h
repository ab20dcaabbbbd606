#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <linnet/core/autograd/tape.h>

/// One entry of the tape. Internal to core.

namespace linnet {

/// Indices start, start + step, … of a dim.
struct SliceOf {
  int dim;
  int64_t start, step;
};

/// A recorded op, or a leaf: a tensor that gathers gradients.
struct [[gnu::visibility("hidden")]] Node {
  Node();
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// A node whose destruction does not recurse, however deep the tape below it.
  static std::shared_ptr<Node> make();
  static int64_t live_count();

  const char* op = "leaf";
  Where where;  ///< the user's line of the forward call
  /// Greater than that of every input, so that walking from the highest down meets an output's node after all that
  /// used the output. No counter is shared: 1 + the inputs' maximum, 0 for a leaf.
  int64_t sequence = 0;
  std::vector<std::shared_ptr<Node>> inputs;  ///< null where an input requires no gradient
  Backward backward;                          ///< empty for a leaf, and once used up
  bool is_leaf = false;
  bool frozen = false;  ///< a leaf that was told to require no gradient: it takes none, and keeps its place in tapes
  /// Set when the op is a slice of its only input: then the engine may add the gradient to the part of the input's
  /// that it belongs to, instead of asking `backward` for a whole tensor of zeros around it.
  std::optional<SliceOf> slice;

  // The output, to which a gradient must fit.
  Shape shape;
  DType dtype = DType::float32;
  Device device = Device::cpu;

  Tensor grad;  ///< accumulated here when a leaf or `keeps_grad`
  bool keeps_grad = false;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;

  Node* next_to_free = nullptr;  ///< while it waits for its destruction
};

/// Throws DeviceError for a gradient that is elsewhere than what it is of: kernels take all that they are given for
/// memory of one device. `what` and `owner` say which they are.
[[noreturn, gnu::visibility("hidden")]] void refuse_device(const std::string& what, const Tensor& gradient,
                                                           const char* owner, Device device);

}  // namespace linnet
