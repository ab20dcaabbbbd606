#pragma once

#include <functional>
#include <utility>

#include <linnet/core/error.h>
#include <linnet/core/removable_handle.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// A registered hook. Its destructor removes the hook, because the hook captures an object that may end before the
/// tensor does.
class [[nodiscard("the hook is removed with its handle")]] HookHandle {
 public:
  explicit HookHandle(RemovableHandle hook) : hook_(std::move(hook)) {}  ///< takes over the removal
  ~HookHandle() { remove(); }
  HookHandle(HookHandle&&) = default;
  HookHandle& operator=(HookHandle&&) = delete;

  void remove() { hook_.remove(); }  ///< removes the hook now

 private:
  RemovableHandle hook_;
};

/// Calls `hook` each time that a backward has added to `leaf.grad()`, as soon as it has gone through all ops that use
/// `leaf`, and before it goes on with the rest of the tape. The hook can, for example, send the gradient to other
/// ranks while further gradients are computed, or take an optimizer's step and drop the gradient with `set_grad({})`,
/// so that memory never holds all gradients. PyTorch passes the tensor to its hook; here the hook captures it. The
/// hook must not register or remove hooks.
///
/// Throws: AutogradError for a tensor that is not a leaf or does not require a gradient. An exception of the hook
/// ends the backward.
HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void()> hook, Where where = {});

}  // namespace linnet
