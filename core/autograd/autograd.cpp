#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/node.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/autograd/tensor_impl.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/removable_handle.h>
#include <linnet/core/tensor.h>

/// Tensor's members for gradients: leaves, accumulated gradients, hooks.

namespace linnet {

bool Tensor::requires_grad() const { return detail::node(*this) != nullptr; }
bool Tensor::is_leaf() const { return detail::node(*this) == nullptr || detail::node(*this)->is_leaf; }

Tensor& Tensor::set_requires_grad(bool requires_grad, Where where) {
  const Call call("set_requires_grad", where);
  if (!is_leaf()) {
    throw AutogradError(
        "only a leaf can be told to require grad or not; this tensor was made by a recorded op: use "
        "detach() for a tensor without history, or retain_grad() to keep its gradient");
  }
  if (const std::shared_ptr<Node>& known = get().node) {
    known->frozen = !requires_grad;
  } else if (requires_grad) {
    if (!is_floating(dtype())) {
      throw DTypeError(fmt::format("only floating tensors have gradients; this one is {}", name_of(dtype())));
    }
    const std::shared_ptr<Node> leaf = Node::make();
    leaf->is_leaf = true;
    leaf->where = where;
    leaf->shape = shape();
    leaf->dtype = dtype();
    leaf->device = device();
    detail::set_node(*this, leaf);
  }
  return *this;
}

Tensor Tensor::grad() const { return detail::node(*this) ? detail::node(*this)->grad : Tensor(); }

void Tensor::set_grad(Tensor grad, Where where) {
  const Call call("set_grad", where);
  if (!grad.defined()) {
    if (get().node) get().node->grad = {};
    return;
  }
  if (!detail::node(*this))
    throw AutogradError(
        "the tensor does not require grad, so it has no place for a gradient; call set_requires_grad() first");
  if (grad.shape() != shape() || grad.dtype() != dtype()) {
    throw ShapeError(fmt::format("the gradient is {}{}, the tensor {}{}; give one of the same shape and dtype",
                                 name_of(grad.dtype()), to_string(grad.shape()), name_of(dtype()),
                                 to_string(shape())));
  }
  if (grad.device() != device()) refuse_device("the gradient", grad, "the tensor", device());
  detail::node(*this)->grad = std::move(grad);
}

void Tensor::retain_grad(Where where) {
  const Call call("retain_grad", where);
  if (!detail::node(*this)) refuse_without_gradient();
  detail::node(*this)->keeps_grad = true;
}

RemovableHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook, Where where) {
  const Call call("register_hook", where);
  const std::shared_ptr<Node>& node = detail::node(*this);
  if (!node) refuse_without_gradient();
  node->hooks.emplace_back(node->hooks_made, std::make_shared<std::function<Tensor(const Tensor&)>>(std::move(hook)));
  return {node, node->hooks_made++};
}

void RemovableHandle::remove() {
  const std::shared_ptr<Node> node = node_.lock();
  if (!node) return;
  const auto is_it = [&](const auto& hook) { return hook.first == number_; };
  std::erase_if(node->hooks, is_it);
  std::erase_if(node->post_accumulate_hooks, is_it);
  node_.reset();
}

}  // namespace linnet
