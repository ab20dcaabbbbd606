#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include <linnet/core/node.h>

/// The engine: walks a tape from its outputs back to its leaves.

namespace linnet {
namespace {

// ---- The two ops that the engine itself needs, recorded like any other for gradients of gradients ----

/// sum = a + b, where sum may be a; of bfloat16 by way of float32.
void add_into(const Tensor& sum, const Tensor& a, const Tensor& b) {
  const DType dtype = computed_in(sum.dtype());
  if (dtype == sum.dtype()) return sum.backend().binary(Binary::add, sum.view(), a.view(), b.view());
  const Tensor total = a.to(dtype);
  total.backend().binary(Binary::add, total.view(), total.view(), b.to(dtype).view());
  sum.backend().copy(sum.view(), total.view());
}

Tensor add_gradients(const Tensor& a, const Tensor& b) {
  Op op("add_gradients", Where{}, {a, b});
  Tensor sum = Tensor::empty(a.shape(), a.dtype(), a.device());
  add_into(sum, a, b);
  return op.record(sum, [](const Tensor& g) { return Grads{g, g}; });
}

/// Adds up the dimensions along which `shape` was broadcast to the gradient's own.
Tensor sum_to_shape(const Tensor& grad, const Shape& shape) {
  if (grad.shape() == shape) return grad;
  const int leading = grad.rank() - shape.rank();
  Shape kept = grad.shape();
  for (int d = 0; d < kept.rank(); ++d) {
    if (d < leading || shape[d - leading] == 1) kept[d] = 1;
  }
  Op op("sum_to_shape", Where{}, {grad});
  const DType dtype = computed_in(grad.dtype());
  Tensor sum = Tensor::empty(kept, dtype, grad.device());
  sum.backend().reduce(Reduce::sum, sum.view(), grad.to(dtype).view());
  sum = op.record(sum.to(grad.dtype()), [from = grad.shape()](const Tensor& g) { return Grads{g.expand(from)}; });
  return sum.reshape(shape);
}

// ---- The walk ----

struct Ready {
  std::shared_ptr<Node> node;
  int64_t order;  ///< in which nodes were met: breaks ties, so that sums have one order
  bool operator<(const Ready& other) const {
    return node->sequence != other.node->sequence ? node->sequence < other.node->sequence : order > other.order;
  }
};

/// Indices start … stop − 1 of a dim, which may not be set yet: so without an op, whose result AnomalyMode looks at.
Tensor part_of(const Tensor& x, int dim, int64_t start, int64_t stop) {
  Shape shape = x.shape();
  shape[dim] = stop - start;
  return x.as_strided(shape, x.strides(), start * x.strides()[dim]);
}

/// The gradients of what one node made, added up. Slices of it that come in order, such as queries, keys and values,
/// are copied side by side, so that nothing need be filled with zeros first.
class Sum {
 public:
  Tensor& total() {
    if (filled_) {
      part_of(total_, dim_, *filled_, total_.shape()[dim_]).fill_(0);
      filled_.reset();
    }
    return total_;
  }

  void add_slice(const Node& node, const SliceOf& slice, const Tensor& gradient) {
    if (!total_.defined()) {
      total_ = Tensor::empty(node.shape, gradient.dtype(), gradient.device());
      dim_ = slice.dim;
      filled_ = 0;
    }
    const int64_t stop = slice.start + slice.step * gradient.shape()[slice.dim];
    if (filled_ == slice.start && dim_ == slice.dim && slice.step == 1) {
      const Tensor part = part_of(total_, dim_, slice.start, stop);
      part.backend().copy(part.view(), gradient.view());
      filled_ = stop;
      return;
    }
    Tensor& sum = total();
    if (!sum.owns_elements_alone() || !sum.is_contiguous()) sum = sum.clone();
    const Tensor part = sum.slice(slice.dim, slice.start, stop, slice.step);
    add_into(part, part, gradient);
    sum.bump_version();
  }

 private:
  Tensor total_;
  int dim_ = 0;
  std::optional<int64_t> filled_;  ///< of `dim_`, how far elements are set; all are when empty
};

class Walk {
 public:
  Walk(bool retain, bool create_graph) : retain_(retain), create_graph_(create_graph) {}

  /// Adds a gradient for what `node` made; it is walked once nothing above it is left.
  void add(const std::shared_ptr<Node>& node, Tensor gradient) {
    gradient = sum_to_shape(gradient, node->shape);
    Tensor& sum = pending_of(node).total();
    if (!sum.defined()) {
      sum = std::move(gradient);
    } else {
      accumulate(sum, gradient);
    }
  }

  /// Walks down to `lowest`, calling `arrive(node, gradient)` once a node's gradient is complete.
  template <class Arrive>
  void run(int64_t lowest, Arrive&& arrive) {
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top().node;
      ready_.pop();
      auto handle = pending_.extract(node.get());
      Tensor gradient = std::move(handle.mapped().total());
      const Call call(node->op, node->where, "backward of ");
      for (const auto& hook : node->hooks) {
        Tensor replaced = hook(gradient);
        if (!replaced.defined()) continue;
        if (replaced.shape() != node->shape || replaced.dtype() != node->dtype) {
          throw ShapeError(fmt::format("a hook made {}{} of a gradient that is {}{}; keep its shape and dtype",
                                       name_of(replaced.dtype()), to_string(replaced.shape()), name_of(node->dtype),
                                       to_string(node->shape)));
        }
        gradient = std::move(replaced);
      }
      if (!node->is_leaf && node->sequence > lowest) propagate(*node, gradient);
      arrive(*node, gradient);
    }
  }

  /// sum += gradient, in place where nobody else can see it.
  void accumulate(Tensor& sum, const Tensor& gradient) const {
    if (!create_graph_ && sum.owns_elements_alone() && sum.is_contiguous()) {
      add_into(sum, sum, gradient);
      sum.bump_version();
    } else {
      sum = add_gradients(sum, gradient);
    }
  }

 private:
  Sum& pending_of(const std::shared_ptr<Node>& node) {
    const auto [entry, is_new] = pending_.try_emplace(node.get());
    if (is_new) ready_.push({node, static_cast<int64_t>(pending_.size())});
    return entry->second;
  }

  void propagate(Node& node, const Tensor& gradient) {
    if (!node.backward) {
      throw AutogradError(
          "the tape was already walked, and what it saved is gone; compute the result anew, or pass {.retain = true} "
          "to the first backward to walk it again");
    }
    if (node.slice && !create_graph_) {
      if (!retain_) node.backward = nullptr;
      pending_of(node.inputs[0]).add_slice(*node.inputs[0], *node.slice, gradient);
      return;
    }
    const Grads gradients = node.backward(gradient);
    if (!retain_) node.backward = nullptr;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i] || !gradients.at(i).defined()) continue;
      check(gradients[i], *node.inputs[i], i);
      add(node.inputs[i], gradients[i]);
    }
  }

  static void check(const Tensor& gradient, const Node& input, size_t i) {
    if (gradient.dtype() != input.dtype) {
      throw DTypeError(fmt::format("the gradient of input {} is {}, the input {}", i, name_of(gradient.dtype()),
                                   name_of(input.dtype)));
    }
    if (broadcast_shapes(input.shape, gradient.shape()) != gradient.shape()) {
      throw ShapeError(
          fmt::format("the gradient of input {} has shape {}, which the input's {} does not broadcast to", i,
                      to_string(gradient.shape()), to_string(input.shape)));
    }
    if (AnomalyMode::enabled() && gradient.backend().has_nan(gradient.view())) {
      throw ValueError(fmt::format("produced a NaN (AnomalyMode), in the gradient of input {}", i));
    }
  }

  bool retain_;
  bool create_graph_;
  std::unordered_map<Node*, Sum> pending_;
  std::priority_queue<Ready> ready_;
};

/// Records during the walk exactly when gradients of gradients are wanted.
class RecordIf {
 public:
  explicit RecordIf(bool record) {
    if (!record) no_grad_.emplace();
  }

 private:
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
      throw ShapeError(fmt::format("the given gradient is {}{}, {} is {}{}", name_of(given.dtype()),
                                   to_string(given.shape()), what, name_of(output.dtype()),
                                   to_string(output.shape())));
    }
    return given;
  }
  if (output.numel() != 1) {
    throw ShapeError(fmt::format("{} has shape {}; reduce it to one element (sum, mean), or give its gradient", what,
                                 to_string(output.shape())));
  }
  return Tensor::empty(output.shape(), output.dtype(), output.device()).fill_(1);
}

/// A gradient as a leaf keeps it: elements of its own, since optimizers edit it.
Tensor own(const Tensor& gradient) {
  return gradient.owns_elements_alone() && gradient.is_contiguous() ? gradient : gradient.clone();
}

}  // namespace

void backward(const Tensor& loss, const BackwardOptions& options, Where where) {
  Tensor start;
  {
    const Call call("backward", where);
    start = seed(loss, options.grad, "the loss");
  }
  const RecordIf record(options.create_graph);
  Walk walk(options.retain || options.create_graph, options.create_graph);
  walk.add(loss.node(), std::move(start));
  walk.run(-1, [&](Node& node, const Tensor& gradient) {
    if (node.is_leaf ? node.frozen : !node.keeps_grad) return;
    if (node.grad.defined()) {
      walk.accumulate(node.grad, gradient);
    } else {
      node.grad = own(gradient);
    }
  });
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options, Where where) {
  std::vector<Tensor> seeds;
  int64_t lowest = 0;
  {
    const Call call("grad", where);
    if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size()) {
      throw ValueError(fmt::format("{} outputs but {} grad_outputs", outputs.size(), options.grad_outputs.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      seeds.push_back(
          seed(outputs[i], options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i], "an output"));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) throw AutogradError(fmt::format("input {} does not require grad", i));
      const int64_t sequence = inputs[i].node()->sequence;
      lowest = i == 0 ? sequence : std::min(lowest, sequence);
    }
  }

  std::vector<Tensor> results(inputs.size());
  {
    const RecordIf record(options.create_graph);
    Walk walk(options.retain || options.create_graph, options.create_graph);
    for (size_t i = 0; i < outputs.size(); ++i) walk.add(outputs[i].node(), seeds[i]);
    walk.run(lowest, [&](Node& node, const Tensor& gradient) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].node().get() == &node) results[i] = gradient;
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
