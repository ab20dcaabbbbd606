#include <linnet/core/autograd/post_accumulate_hook.h>

#include <utility>
#include <vector>

#include <linnet/core/autograd/node.h>
#include <linnet/core/device/kernel_access.h>

namespace linnet {

void HookHandle::remove() {
  const std::shared_ptr<Node> node = node_.lock();
  if (!node) return;
  std::erase_if(node->post_accumulate_hooks, [&](const auto& hook) { return hook.first == number_; });
  node_.reset();
}

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void()> hook, Where where) {
  const Call call("register_post_accumulate_grad_hook", where);
  const std::shared_ptr<Node>& node = detail::node(leaf);
  if (!node) refuse_without_gradient();
  if (!node->is_leaf) throw AutogradError("only leaves, such as parameters, accumulate gradients; see register_hook");
  auto& hooks = node->post_accumulate_hooks;
  const int64_t number = hooks.empty() ? 0 : hooks.back().first + 1;
  hooks.emplace_back(number, std::move(hook));
  return {node, number};
}

}  // namespace linnet
