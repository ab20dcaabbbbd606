#include <linnet/core/autograd/functional.h>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet {
namespace {

Tensor zeros_of(const Shape& shape, const Tensor& like) {
  return Tensor::empty(shape, like.dtype(), like.device()).fill_(0);
}

/// A leaf with the elements of x, for the derivatives by x.
Tensor leaf_of(const Tensor& x, const char* name, Where where) {
  const Call call(name, where);
  return x.detach().set_requires_grad();
}

}  // namespace

std::vector<Tensor> detail::grad_or_zeros(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                          const GradOptions& options) {
  std::vector<Tensor> tracked;
  GradOptions of_tracked{.retain = options.retain, .create_graph = options.create_graph, .allow_unused = true};
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    tracked.push_back(outputs[i]);
    of_tracked.grad_outputs.push_back(options.grad_outputs[i]);
  }
  std::vector<Tensor> gradients(inputs.size());
  if (!tracked.empty()) gradients = grad(tracked, inputs, of_tracked);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = zeros_of(inputs[i].shape(), inputs[i]);
  }
  return gradients;
}

std::vector<Tensor> detail::jacobians(const Tensor& output, const std::vector<Tensor>& inputs, double factor) {
  const int64_t rows = output.numel();
  std::vector<Tensor> results;
  for (const Tensor& input : inputs) {
    Shape shape = output.shape();
    for (const int64_t size : input.shape()) shape.push_back(size);
    results.push_back(zeros_of(shape, input));
  }
  for (int64_t row = 0; row < rows && output.requires_grad(); ++row) {
    const Tensor one_hot = zeros_of({rows}, output);
    one_hot.select(0, row).fill_(factor);
    const std::vector<Tensor> gradients =
        grad_or_zeros({output}, inputs, {.grad_outputs = {one_hot.view(output.shape())}, .retain = true});
    for (size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = inputs[i].shape();
      shape.insert(0, rows);
      results[i].view(shape).select(0, row).copy_(gradients[i]);
    }
  }
  return results;
}

Tensor jacobian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where) {
  const Tensor leaf = leaf_of(x, "jacobian", where);
  const EnableGrad enable_grad;
  return detail::jacobians(f(leaf), {leaf})[0];
}

Tensor hessian(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, Where where) {
  const Tensor leaf = leaf_of(x, "hessian", where);
  const EnableGrad enable_grad;
  const Tensor y = f(leaf);
  if (y.numel() != 1) {
    const Call call("hessian", where);
    throw ShapeError(
        fmt::format("f(x) has shape {}; reduce it to one element (sum, mean), or take jacobian, which has "
                    "the first derivatives of several",
                    to_string(y.shape())));
  }
  const Tensor one = Tensor::empty(y.shape(), y.dtype(), y.device()).fill_(1);
  const Tensor gradient = detail::grad_or_zeros({y}, {leaf}, {.grad_outputs = {one}, .create_graph = true})[0];
  return detail::jacobians(gradient, {leaf})[0];
}

}  // namespace linnet
