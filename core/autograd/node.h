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
  /// 0 for a leaf, and otherwise 1 + the largest number of its inputs. Backward walks the ops from the highest number
  /// down. The number depends on the inputs alone. So threads that record at the same time neither wait for each
  /// other nor change the order.
  int64_t sequence = 0;
  std::vector<std::shared_ptr<Node>> inputs;  ///< null where an input requires no gradient
  Backward backward;                          ///< empty for a leaf, and after backward has used and freed it
  bool is_leaf = false;
  bool frozen = false;  ///< a leaf that no longer requires a gradient: it gets none, but stays in recorded tapes

  // The output's shape, dtype and device. Its gradient must have the same.
  Shape shape;
  DType dtype = DType::float32;
  Device device = Device::cpu;

  Tensor grad;  ///< the accumulated gradient of a leaf, or of any node with `keeps_grad`
  bool keeps_grad = false;
  // Hooks have the numbers of their handles.
  /// Shared, since backward calls the hooks of a copy of the list, and a hook may have state.
  std::vector<std::pair<int64_t, std::shared_ptr<std::function<Tensor(const Tensor&)>>>> hooks;
  std::vector<std::pair<int64_t, std::function<void()>>> post_accumulate_hooks;
  int64_t hooks_made = 0;  ///< of both kinds

  Node* next_to_free = nullptr;  ///< the next in the list of nodes to destroy
};

/// Throws DeviceError for a gradient on another device than its tensor, because kernels assume that all their
/// operands are on one device. `what` and `owner` name the two in the message.
[[noreturn, gnu::visibility("hidden")]] void refuse_device(const std::string& what, const Tensor& gradient,
                                                           const char* owner, Device device);

/// Throws AutogradError: the tensor requires no gradient, so it cannot keep one or have hooks.
[[noreturn, gnu::visibility("hidden")]] void refuse_without_gradient();

}  // namespace linnet
