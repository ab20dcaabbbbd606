#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include <linnet/core/autograd/gradient_sum.h>
#include <linnet/core/autograd/node.h>
#include <linnet/core/device/kernel_access.h>

/// The engine: it walks a tape from its outputs back to its leaves.

namespace linnet {
namespace {

struct Ready {
  std::shared_ptr<Node> node;
  /// The order in which the pass reached the nodes. It breaks ties, so that gradients are always summed in the same
  /// order.
  int64_t order;
  bool operator<(const Ready& other) const {
    return node->sequence != other.node->sequence ? node->sequence < other.node->sequence : order > other.order;
  }
};

class BackwardPass {
 public:
  explicit BackwardPass(bool retain) : retain_(retain) {}

  /// Adds a gradient of the output of `node`. The node's turn comes when no node with a higher sequence number is
  /// left.
  void add(const std::shared_ptr<Node>& node, const Grad& gradient) {
    const auto [entry, is_new] = pending_.try_emplace(node.get());
    if (is_new) ready_.push({node, met_++});
    entry->second.add(node->shape, gradient);
  }

  /// Walks down to sequence number `lowest`, and calls `arrive(node, gradient)` when a node's gradient is complete.
  template <class Arrive>
  void run(int64_t lowest, Arrive&& arrive) {
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top().node;
      ready_.pop();
      auto handle = pending_.extract(node.get());
      if (node->frozen) continue;
      const Call call(node->op, node->where, "backward of ");
      const Tensor gradient = apply_hooks(*node, std::move(handle.mapped().complete()));
      if (!node->is_leaf && node->sequence > lowest) propagate(*node, gradient);
      arrive(*node, gradient);
    }
  }

 private:
  static Tensor apply_hooks(const Node& node, Tensor gradient) {
    const auto hooks = node.hooks;  // a hook may register another
    for (const auto& hook : hooks) {
      Tensor replaced = hook(gradient);
      if (!replaced.defined()) continue;
      if (replaced.shape() != node.shape || replaced.dtype() != node.dtype) {
        throw ShapeError(fmt::format("a hook returned {}{} for a gradient that is {}{}; keep its shape and dtype",
                                     name_of(replaced.dtype()), to_string(replaced.shape()), name_of(node.dtype),
                                     to_string(node.shape)));
      }
      if (replaced.device() != node.device) {
        refuse_device("the result of a hook", replaced, "the gradient", node.device);
      }
      gradient = std::move(replaced);
    }
    return gradient;
  }

  void propagate(Node& node, const Tensor& gradient) {
    if (!node.backward) {
      throw AutogradError(
          "the tape was already walked, and its saved tensors are freed; compute the result again, or pass "
          "{.retain = true} to the first backward to walk it again");
    }
    const Grads gradients = node.backward(gradient);
    if (!retain_) node.backward = nullptr;
    if (gradients.size() != node.inputs.size()) {
      throw ValueError(fmt::format("{} gradients for {} inputs; give one each, undefined where there is none",
                                   gradients.size(), node.inputs.size()));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i] || !gradients[i].tensor().defined()) continue;
      check(gradients[i], *node.inputs[i], i);
      add(node.inputs[i], gradients[i]);
    }
  }

  static void check(const Grad& given, const Node& input, size_t i) {
    const Tensor& gradient = given.tensor();
    if (gradient.dtype() != input.dtype) {
      throw DTypeError(fmt::format("the gradient of input {} is {}, the input {}; convert it with to(DType::{})", i,
                                   name_of(gradient.dtype()), name_of(input.dtype), name_of(input.dtype)));
    }
    check_shape(given, input.shape, i);
    if (gradient.device() != input.device) {
      refuse_device(fmt::format("the gradient of input {}", i), gradient, "the input", input.device);
    }
    if (AnomalyMode::enabled() && backend(gradient).has_nan(detail::view(gradient))) {
      throw ValueError(fmt::format("produced a NaN (AnomalyMode), in the gradient of input {}", i));
    }
  }

  bool retain_;
  int64_t met_ = 0;
  std::unordered_map<Node*, GradientSum> pending_;
  std::priority_queue<Ready> ready_;
};

/// A guard: turns recording on during the walk if gradients of gradients are wanted, and off otherwise.
class RecordIf {
 public:
  explicit RecordIf(bool record) {
    if (record) enable_grad_.emplace();
    if (!record) no_grad_.emplace();
  }

 private:
  std::optional<EnableGrad> enable_grad_;
  std::optional<NoGrad> no_grad_;
};

Tensor seed(const Tensor& output, const Tensor& given, const char* what) {
  if (!output.requires_grad()) {
    throw AutogradError(
        fmt::format("{} does not require grad: no op on the way to it was recorded with an input that "
                    "requires one; was it computed under NoGrad, or from detached or frozen tensors?",
                    what));
  }
  if (given.defined()) {
    if (given.shape() != output.shape() || given.dtype() != output.dtype()) {
      throw ShapeError(fmt::format("the given gradient is {}{}, {} is {}{}; give one of the same shape and dtype",
                                   name_of(given.dtype()), to_string(given.shape()), what, name_of(output.dtype()),
                                   to_string(output.shape())));
    }
    if (given.device() != output.device()) refuse_device("the given gradient", given, what, output.device());
    return given;
  }
  if (output.numel() != 1) {
    throw ShapeError(fmt::format("{} has shape {}; reduce it to one element (sum, mean), or give its gradient", what,
                                 to_string(output.shape())));
  }
  return Tensor::empty(output.shape(), output.dtype(), output.device()).fill_(1);
}

/// A gradient with elements of its own, for a leaf to keep. Optimizers edit it in place.
Tensor own(const Tensor& gradient) {
  return detail::owns_elements_alone(gradient) && gradient.is_contiguous() ? gradient : gradient.clone();
}

}  // namespace

void backward(const Tensor& loss, const BackwardOptions& options, Where where) {
  Tensor start;
  {
    const Call call("backward", where);
    start = seed(loss, options.grad, "the loss");
  }
  const RecordIf record(options.create_graph);
  BackwardPass walk(options.retain || options.create_graph);
  walk.add(detail::node(loss), std::move(start));
  walk.run(-1, [&](Node& node, const Tensor& gradient) {
    if (!node.is_leaf && !node.keeps_grad) return;
    if (node.grad.defined()) {
      accumulate(node.grad, gradient);
    } else {
      node.grad = own(gradient);
    }
    for (const auto& hook : node.post_accumulate_hooks) hook.second();
  });
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options, Where where) {
  std::vector<Tensor> seeds;
  int64_t lowest = 0;
  {
    const Call call("grad", where);
    if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size()) {
      throw ValueError(fmt::format("{} outputs but {} grad_outputs; give one for each, or none", outputs.size(),
                                   options.grad_outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      seeds.push_back(
          seed(outputs[i], options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i], "an output"));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) {
        throw AutogradError(fmt::format(
            "input {} does not require grad; call set_requires_grad() on it before the outputs are computed", i));
      }
      const int64_t sequence = detail::node(inputs[i])->sequence;
      lowest = i == 0 ? sequence : std::min(lowest, sequence);
    }
  }

  std::vector<Tensor> results(inputs.size());
  {
    const RecordIf record(options.create_graph);
    BackwardPass walk(options.retain || options.create_graph);
    for (size_t i = 0; i < outputs.size(); ++i) walk.add(detail::node(outputs[i]), seeds[i]);
    walk.run(lowest, [&](Node& node, const Tensor& gradient) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (detail::node(inputs[i]).get() == &node) results[i] = gradient;
      }
    });
  }

  const Call call("grad", where);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!results[i].defined() && !options.allow_unused) {
      throw AutogradError(
          fmt::format("no output depends on input {}; pass {{.allow_unused = true}} to get an undefined "
                      "tensor for it",
                      i));
    }
  }
  return results;
}

}  // namespace linnet
