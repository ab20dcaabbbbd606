#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/gradient_sum.h>
#include <linnet/core/autograd/node.h>
#include <linnet/core/autograd/tensor_impl.h>
#include <linnet/core/device/kernel_access.h>

/// The engine: it walks a tape from its outputs back to its leaves.

namespace linnet {
namespace {

/// What a pass knows about a node that it can reach.
struct Visit {
  bool is_wanted = false;  ///< the caller wants this node's gradient, or that of a node below it
  bool leads = false;      ///< an input of the node is wanted
  int64_t uses = 0;        ///< by nodes whose turn is still to come
  GradientSum sum;
  std::optional<int64_t> order;  ///< in which the nodes got their first gradients
};
using Visited = std::pair<Node* const, Visit>;

/// A node whose gradient is complete. A leaf comes first, because its hooks can free its gradient or send it away.
/// Ops follow by their sequence numbers and then by `order`, so that gradients are always summed in the same order.
struct Ready {
  Visited* visited;
  bool operator<(const Ready& other) const {
    const auto turn = [](const Visited& of) {
      const auto& [node, visit] = of;
      return std::pair(node->is_leaf ? std::numeric_limits<int64_t>::max() : node->sequence, -*visit.order);
    };
    return turn(*visited) < turn(*other.visited);
  }
};

/// A walk from outputs down to the nodes whose gradients the caller wants. It first counts the uses of each node. A
/// node's turn comes when all its uses have given their gradients.
class BackwardPass {
 public:
  /// `wants(node)` says whether the caller wants a node's gradient. No such node has a lower sequence number than
  /// `lowest`.
  template <class Wants>
  BackwardPass(const std::vector<Tensor>& outputs, bool retain, int64_t lowest, Wants&& wants) : retain_(retain) {
    for (const Tensor& output : outputs) root_.inputs.push_back(detail::node(output));
    root_.sequence = std::numeric_limits<int64_t>::max();
    count_uses(lowest, wants);
  }

  /// Walks with these gradients of the outputs. Calls `arrive(node, gradient)` when a node's gradient is complete.
  template <class Arrive>
  void run(const std::vector<Tensor>& seeds, Arrive&& arrive) {
    pass_on(*visits_.find(&root_), Grads(seeds.begin(), seeds.end()));
    while (!ready_.empty()) {
      Visited& visited = *ready_.top().visited;
      ready_.pop();
      Node& node = *visited.first;
      Tensor sum = std::move(visited.second.sum.complete());
      if (node.frozen) continue;
      if (!sum.defined()) {  // no use had a gradient for it
        pass_on(visited, Grads(node.inputs.size()));
        continue;
      }
      const Call call(node.op, node.where, "backward of ");
      const Tensor gradient = apply_hooks(node, std::move(sum));
      if (visited.second.leads) pass_on(visited, gradients_of_inputs(node, gradient));
      arrive(node, gradient);
    }
  }

 private:
  /// Goes through all nodes that lead to a wanted one, depth first and without recursion.
  template <class Wants>
  void count_uses(int64_t lowest, Wants& wants) {
    struct Step {
      Visited* visited;
      size_t next;  ///< the first input that was not looked at
    };
    const auto visit = [&](Node& node) {
      const auto result = visits_.try_emplace(&node);
      if (result.second) result.first->second.is_wanted = wants(node);
      return result;
    };
    const auto use = [](Visited& user, Visited& input) {
      if (!input.second.is_wanted) return;
      ++input.second.uses;
      user.second.leads = user.second.is_wanted = true;
    };
    std::vector<Step> path{{&*visit(root_).first, 0}};
    while (!path.empty()) {
      auto& [visited, next] = path.back();
      const Node& node = *visited->first;
      if (node.sequence > lowest && next < node.inputs.size()) {
        const std::shared_ptr<Node>& input = node.inputs[next++];
        if (!input) continue;
        const auto [found, is_new] = visit(*input);
        if (is_new) {
          path.push_back({&*found, 0});
        } else {
          use(*visited, *found);
        }
      } else {
        Visited& done = *visited;
        path.pop_back();
        if (!path.empty()) use(*path.back().visited, done);
      }
    }
  }

  static Tensor apply_hooks(const Node& node, Tensor gradient) {
    const auto hooks = node.hooks;  // a hook may register another, or remove itself
    for (const auto& [number, hook] : hooks) {
      Tensor replaced = (*hook)(gradient);
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

  Grads gradients_of_inputs(Node& node, const Tensor& gradient) const {
    if (!node.backward) {
      throw AutogradError(
          "the tape was already walked, and its saved tensors are freed; compute the result again, or pass "
          "{.retain = true} to the first backward to walk it again");
    }
    Grads gradients = node.backward(gradient);
    if (!retain_) node.backward = nullptr;
    if (gradients.size() != node.inputs.size()) {
      throw ValueError(fmt::format("{} gradients for {} inputs; give one each, undefined where there is none",
                                   gradients.size(), node.inputs.size()));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && gradients[i].tensor().defined()) check(gradients[i], *node.inputs[i], i);
    }
    return gradients;
  }

  /// Gives the wanted inputs of a node their gradients, of which some may be undefined.
  void pass_on(const Visited& visited, const Grads& gradients) {
    if (!visited.second.leads) return;
    const Node& node = *visited.first;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i]) continue;
      Visited& input = *visits_.find(node.inputs[i].get());
      if (input.second.is_wanted) give(input, gradients[i]);
    }
  }

  void give(Visited& visited, const Grad& gradient) {
    auto& [node, visit] = visited;
    const bool is_last = --visit.uses == 0;
    const bool has_gradient = gradient.tensor().defined();
    if (!visit.order && (has_gradient || is_last)) visit.order = met_++;
    if (has_gradient) visit.sum.add(node->shape, gradient);
    if (is_last) ready_.push({&visited});
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

  Node root_;  ///< its inputs are the outputs
  bool retain_;
  int64_t met_ = 0;
  std::unordered_map<Node*, Visit> visits_;
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

/// A gradient with elements of its own, for a leaf to keep. Optimizers edit it in place. A part of a larger tensor is
/// copied, because it would keep all of the larger one in memory.
Tensor own(const Tensor& gradient) {
  const int64_t bytes = gradient.numel() * size_of(gradient.dtype());
  const bool is_whole = detail::TensorAccess::impl(gradient).storage->bytes == bytes && gradient.is_contiguous();
  return is_whole && detail::owns_elements_alone(gradient) ? gradient : gradient.clone();
}

}  // namespace

void backward(const Tensor& loss, const BackwardOptions& options, Where where) {
  Tensor start;
  {
    const Call call("backward", where);
    start = seed(loss, options.grad, "the loss");
  }
  const RecordIf record(options.create_graph);
  BackwardPass walk({loss}, options.retain || options.create_graph, 0, [](const Node& node) { return node.is_leaf; });
  walk.run({start}, [&](Node& node, const Tensor& gradient) {
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
  std::unordered_map<const Node*, Tensor> gradients;  // of the inputs
  int64_t lowest = std::numeric_limits<int64_t>::max();
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
      const Node& node = *detail::node(inputs[i]);
      gradients.try_emplace(&node);
      lowest = std::min(lowest, node.sequence);
    }
  }

  {
    const RecordIf record(options.create_graph);
    BackwardPass walk(outputs, options.retain || options.create_graph, lowest,
                      [&](const Node& node) { return gradients.contains(&node); });
    walk.run(seeds, [&](const Node& node, const Tensor& gradient) {
      if (const auto input = gradients.find(&node); input != gradients.end()) input->second = gradient;
    });
  }

  const Call call("grad", where);
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    results.push_back(gradients[detail::node(inputs[i]).get()]);
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
