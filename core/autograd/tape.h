#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/core/tensor.h>

/// The tape: how an op is recorded, and how backward walks the recorded ops. There is no tape object: each result of
/// a recorded op owns its Node, and a node owns the nodes of its inputs.

namespace linnet {

struct Node;
class Recomputed;

/// The gradient of an input that is zero outside a part of it. The part is the indices start, start + step, … of one
/// dim, as many as `gradient` has there. The backward of 2 · x.narrow(1, 4, n), as one op:
///
///     const Backward of_part = [](const Tensor& g) { return Grads{PartialGrad{g * 2, 1, 4}}; };
///
/// Cost: no zeros are written if the parts of an input arrive in the order of their indices and cover all of it, as
/// those of queries, keys and values do. Nothing is copied either if an op made the parts side by side in one memory.
struct PartialGrad {
  Tensor gradient;    ///< has the input's shape, except for its size in `dim`
  int64_t dim = 0;    ///< counts from the end if negative
  int64_t start = 0;  ///< at least 0
  int64_t step = 1;   ///< at least 1
};

/// What a backward function returns for one input: the gradient of the input, or of a part of it (a PartialGrad), or
/// an undefined tensor for no gradient. The gradient of a whole input may have the result's broadcast shape: the
/// engine sums it to the input's shape.
///
/// Throws: backward throws DTypeError, DeviceError or ShapeError for a gradient that does not fit the input. For a
/// PartialGrad it also throws IndexError if the input does not have its indices, and ValueError for a step below 1.
class Grad {
 public:
  Grad() = default;
  Grad(Tensor gradient) : part_{std::move(gradient)} {}  // NOLINT(google-explicit-constructor): for `Grads{g}`
  Grad(PartialGrad part) : part_(std::move(part)), is_partial_(true) {}  // NOLINT(google-explicit-constructor)

  const Tensor& tensor() const { return part_.gradient; }  ///< the gradient of the input or of its part
  bool is_partial() const { return is_partial_; }          ///< whether this is a PartialGrad
  const PartialGrad& part() const { return part_; }        ///< the PartialGrad, if it is one

 private:
  PartialGrad part_;
  bool is_partial_ = false;
};

/// One Grad for each input of an op, in order.
using Grads = std::vector<Grad>;
/// Maps the gradient with respect to an op's output, PyTorch's grad_output, to those with respect to its inputs. It
/// is written with ops, so that it can be recorded itself.
using Backward = std::function<Grads(const Tensor& grad)>;

/// A guard: while it lives, ops on this thread are not recorded.
class NoGrad {
 public:
  [[nodiscard("give it a name, as in 'NoGrad no_grad;': an unnamed guard ends at once")]] NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// A guard: while it lives, ops on this thread are recorded, also inside a NoGrad.
class EnableGrad {
 public:
  [[nodiscard("give it a name, as in 'EnableGrad enable_grad;': an unnamed guard ends at once")]] EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};

/// Whether ops on this thread are being recorded.
bool grad_enabled();

/// A guard for debugging: while it lives, every op on this thread checks its output for NaN, and backward checks
/// every gradient.
///
/// Cost: one more pass over every result, and on a GPU a wait for each.
/// Throws: the op or backward throws ValueError at the first NaN. The message names the forward call, also in
/// backward.
class AnomalyMode {
 public:
  [[nodiscard("give it a name, as in 'AnomalyMode anomaly_mode;': an unnamed guard ends at once")]] AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;
  static bool enabled();  ///< on this thread

 private:
  bool before_;
};

/// A tensor that is kept for backward. Reading it throws AutogradError if it was edited in place since.
class Saved {
 public:
  Saved() = default;
  /// The tensor, with its node in the tape.
  Tensor operator()() const;
  bool defined() const { return tensor_.defined(); }  ///< whether there is a tensor
  /// Whether the tensor requires a gradient. If not, backward need not compute it.
  bool requires_grad() const { return tensor_.defined() && tensor_.requires_grad(); }
  const Shape& shape() const { return tensor_.shape(); }  ///< its sizes

 private:
  friend class Op;
  friend class CheckpointedCall;
  explicit Saved(const Tensor& tensor);

  Tensor tensor_;
  std::shared_ptr<Recomputed> recomputed_;  // inside a checkpoint: holds the elements, which tensor_ then lacks
  std::weak_ptr<Node> output_of_;           // for an output: its node, which owns this; a shared_ptr would be a cycle
  uint64_t version_ = 0;
};

/// A running primitive op. It checks that its inputs agree, records its result on the tape, and throws if the op ends
/// without recording a backward or declaring that it has none.
///
///     Tensor exp(const Tensor& x, Where where) {
///       Op op("exp", where, {x});
///       Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
///       backend(y).unary(Unary::exp, detail::view(y), detail::view(x));
///       return op.record(y, [y = op.save_output(y)](const Tensor& g) { return Grads{mul(g, y())}; });
///     }
///
/// Only the library's own ops can call a backend. An op in your program computes its result by other ops, from
/// `x.detach()`, so that these record no nodes of their own (chapter 15 of the tutorial). An op that only changes the
/// gradient records its input as its output. This one reverses the gradient:
///
///     Tensor reverse_gradient(const Tensor& x, Where where = {}) {
///       Op op("reverse_gradient", where, {x});
///       return op.record(x, [](const Tensor& g) { return Grads{-g}; });
///     }
class Op : public Call {
 public:
  /// `inputs` are all tensors that the result depends on. An undefined tensor is an optional argument that was not
  /// given. Throws DeviceError when a defined input is on another device than the first one.
  Op(const char* name, Where where, std::initializer_list<Tensor> inputs);
  Op(const char* name, Where where, std::vector<Tensor> inputs);
  /// Throws AutogradError if none of `record`, `non_differentiable` and `first_derivative_only` was called.
  ~Op() noexcept(false);

  /// The dtype of all defined inputs. Throws DTypeError if they differ.
  DType common_dtype() const;
  /// The dtype of all defined inputs. Throws DTypeError if they differ, and if it is not floating.
  DType floating_dtype() const;
  /// For the op of a layer: its first `count` inputs are activations, and the others are the layer's parameters.
  /// Returns the dtype of the activations. Throws DTypeError unless it is floating and all inputs have it; beside
  /// bfloat16 activations, parameters are float32.
  DType activation_dtype(size_t count = 1) const;

  /// Keeps an input, or a tensor computed from detached inputs, for backward. Inside a checkpoint its elements are
  /// not kept, but computed again.
  Saved save(const Tensor& tensor) const;
  /// Keeps the output itself for backward.
  Saved save_output(const Tensor& output);
  /// Whether input `i` requires a gradient.
  bool needs_grad(size_t i) const { return inputs_[i].defined() && inputs_[i].requires_grad(); }

  /// Ends the op. When any input requires a gradient and recording is on, `output` gets a node with `backward`, a
  /// function that can be converted to a Backward. Otherwise it is not converted, because that allocates memory. If
  /// `output` is one of the inputs, the result is a new tensor with the same elements. An op with several outputs
  /// calls this for each.
  template <class Function>
  Tensor record(Tensor output, Function&& backward) {
    if (is_input(output)) output = output.detach();  // the node belongs to the result
    return end_with(output) ? add_node(std::move(output), std::forward<Function>(backward)) : output;
  }
  /// The other way to end an op: without a backward. Throws AutogradError with the reason when a gradient would be
  /// lost: when an input requires one, recording is on, and the output's dtype is floating (bool and integers have no
  /// gradients).
  Tensor non_differentiable(Tensor output, const char* reason);
  /// Ends the backward of a fused op, which has first derivatives only. Throws AutogradError if ops are recorded,
  /// which is so in a backward only with `create_graph`. (The inputs cannot tell: their nodes may be freed by then.)
  /// `parts` names the ops from which a user can compose the fused op to get second derivatives.
  void first_derivative_only(const char* parts);

 private:
  bool tracked() const;
  bool is_input(const Tensor& output) const;
  /// Marks the op as ended, and returns whether this output gets a node.
  bool end_with(const Tensor& output);
  Tensor add_node(Tensor output, Backward backward);

  std::vector<Tensor> inputs_;
  std::shared_ptr<Node> pending_;
  int exceptions_;
  bool finished_ = false;
};

/// Options of `backward`.
struct BackwardOptions {
  /// The gradient with respect to the loss. If it is undefined, the loss must have one element, and it is 1.
  Tensor grad = {};
  /// Keeps the saved tensors, so that backward can run again: PyTorch's retain_graph.
  bool retain = false;
  /// Records the backward pass itself, for gradients of gradients. Implies `retain`. A leaf then has a recorded
  /// gradient whose tape holds the leaf: the two keep each other alive until `set_grad({})`. The function `grad`
  /// below makes no such cycle.
  bool create_graph = false;
};

/// Adds d loss / d leaf to `grad()` of every leaf that requires a gradient. Results are deterministic. Each saved
/// tensor is freed as soon as it was used, unless `retain` is set. A leaf gets its gradient, and its hooks are
/// called, as soon as backward has gone through all ops that use it.
///
/// Shapes: `grad` has the loss's shape and dtype.
/// Cost: time and memory grow with the recorded ops. There is no limit on depth.
/// Throws: AutogradError when the loss does not require a gradient, when the tape was walked before, or when a saved
/// tensor was edited since; ShapeError for a loss of several elements without `grad`, and for a `grad` of another
/// shape or dtype; DeviceError for a gradient, given or computed, on another device than its tensor.
void backward(const Tensor& loss, const BackwardOptions& options = {}, Where where = {});

/// Options of `grad`. `retain` and `create_graph` mean the same as in BackwardOptions.
struct GradOptions {
  /// The gradients with respect to the outputs. If empty, every output must have one element, and they are 1.
  std::vector<Tensor> grad_outputs = {};
  bool retain = false;        ///< keeps the saved tensors
  bool create_graph = false;  ///< records the backward pass
  /// Returns an undefined tensor for an input that no output depends on, instead of throwing.
  bool allow_unused = false;
};

/// d outputs / d inputs, one tensor for each input. Does not change any `grad()`. It goes only through ops on the way
/// from an output to an input: no other hook is called, and the saved tensors of other ops stay.
///
/// Shapes: each gradient has its input's shape and dtype. It may share elements with another: edit a clone() of it.
/// Gradient: with `create_graph`, any number of times.
/// Throws: as `backward`; AutogradError also for an input that does not require a gradient or on which no output
/// depends; ValueError unless there are as many grad_outputs as outputs, or none.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {}, Where where = {});

/// The number of tape nodes alive in the process. It does not grow over the steps of a training loop.
int64_t live_tape_nodes();

}  // namespace linnet
