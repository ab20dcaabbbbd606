#include <linnet/core/autograd/post_accumulate_hook.h>

#include <memory>
#include <utility>

#include <linnet/core/autograd/node.h>
#include <linnet/core/device/kernel_access.h>

namespace linnet {

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void()> hook, Where where) {
  const Call call("register_post_accumulate_grad_hook", where);
  const std::shared_ptr<Node>& node = detail::node(leaf);
  if (!node) refuse_without_gradient();
  if (!node->is_leaf) throw AutogradError("only leaves, such as parameters, accumulate gradients; see register_hook");
  node->post_accumulate_hooks.emplace_back(node->hooks_made, std::move(hook));
  return HookHandle({node, node->hooks_made++});
}

}  // namespace linnet
