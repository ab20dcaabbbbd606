#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <linnet/core/error.h>
#include <linnet/core/tensor.h>

namespace linnet {

struct Node;

/// A hook that is registered while this lives.
class [[nodiscard("the hook is removed with its handle")]] HookHandle {
 public:
  HookHandle(std::weak_ptr<Node> node, int64_t number) : node_(std::move(node)), number_(number) {}  ///< of a hook
  ~HookHandle() { remove(); }
  HookHandle(HookHandle&&) = default;
  HookHandle& operator=(HookHandle&&) = delete;

  void remove();  ///< removes the hook, before this ends

 private:
  std::weak_ptr<Node> node_;
  int64_t number_;
};

/// Calls `hook` each time that a backward has added to `leaf.grad()`, before it goes on with the rest of the tape: to
/// send a gradient on while others are still computed. PyTorch's hook is given the tensor, this one keeps what it
/// needs. It may take the gradient away with `set_grad({})`, and registers and removes no hooks.
///
/// Throws: AutogradError for a tensor that is no leaf, or does not require a gradient. What the hook throws ends the
/// backward.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void()> hook, Where where = {});

}  // namespace linnet
