#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <linnet/core/autograd/tape.h>

/// One entry of the tape. Internal to core.

namespace linnet {

/// A recorded op, or a leaf: a tensor that accumulates gradients.
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
  /// 0 for a leaf, and otherwise 1 + the inputs' maximum. A walk from the highest down thus meets a node after all
  /// nodes that used its output. It is made from the inputs alone, so that threads which record at the same time
  /// neither wait for each other nor change the order.
  int64_t sequence = 0;
  std::vector<std::shared_ptr<Node>> inputs;  ///< null where an input requires no gradient
  Backward backward;                          ///< empty for a leaf, and once used up
  bool is_leaf = false;
  bool frozen = false;  ///< a leaf that stopped requiring a gradient: it takes none, and stays in its tapes

  // The output's shape, dtype and device, which a gradient must have.
  Shape shape;
  DType dtype = DType::float32;
  Device device = Device::cpu;

  Tensor grad;  ///< accumulated here when a leaf or `keeps_grad`
  bool keeps_grad = false;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;
  std::vector<std::pair<int64_t, std::function<void()>>>
      post_accumulate_hooks;  ///< with the numbers of their handles

  Node* next_to_free = nullptr;  ///< the next in the list of nodes to destroy
};

/// Throws DeviceError for a gradient on another device than its tensor, because kernels assume that all their
/// operands are on one device. `what` and `owner` name the two in the message.
[[noreturn, gnu::visibility("hidden")]] void refuse_device(const std::string& what, const Tensor& gradient,
                                                           const char* owner, Device device);

/// Throws AutogradError for a tensor that requires no gradient, where a gradient is to be kept or looked at.
[[noreturn, gnu::visibility("hidden")]] void refuse_without_gradient();

}  // namespace linnet
