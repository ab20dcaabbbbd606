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

/// The gradient of a part of an input, where it is zero elsewhere: of indices start, start + step, … of one dim, as
/// many as `gradient` has there. The backward of 2 · x.narrow(1, 4, n), as one op:
///
///     const Backward of_part = [](const Tensor& g) { return Grads{PartialGrad{g * 2, 1, 4}}; };
///
/// Cost: nobody writes the zeros where the parts of an input come in the order of their indices and leave none out,
/// as those of queries, keys and values do. Nor is anything copied where an op made them side by side in one memory.
struct PartialGrad {
  Tensor gradient;    ///< has the input's shape, but for its size in `dim`
  int64_t dim = 0;    ///< counts from the end where negative
  int64_t start = 0;  ///< at least 0
  int64_t step = 1;   ///< at least 1
};

/// What a backward gives for an input: its gradient, that of a part of it, or, as an undefined tensor, none. That of
/// all of it may have the broadcast shape of the result: the engine sums it to the input's shape.
///
/// Throws: backward throws DTypeError, DeviceError or ShapeError for one that does not fit the input; for a
/// PartialGrad also IndexError where the input does not have its indices, and ValueError for a step below 1.
class Grad {
 public:
  Grad() = default;
  Grad(Tensor gradient) : part_{std::move(gradient)} {}  // NOLINT(google-explicit-constructor): for `Grads{g}`
  Grad(PartialGrad part) : part_(std::move(part)), is_partial_(true) {}  // NOLINT(google-explicit-constructor)

  const Tensor& tensor() const { return part_.gradient; }  ///< of the input or of the part
  bool is_partial() const { return is_partial_; }          ///< of a part of the input
  const PartialGrad& part() const { return part_; }        ///< of a partial one

 private:
  PartialGrad part_;
  bool is_partial_ = false;
};

/// One for each input of an op, in order.
using Grads = std::vector<Grad>;
/// Maps the cotangent of an op's output to the cotangents of its inputs. It is written with ops, so that it can be
/// recorded itself.
using Backward = std::function<Grads(const Tensor& grad)>;

/// A guard: while it lives, ops on this thread are not recorded.
class NoGrad {
 public:
  [[nodiscard("give it a name, NoGrad no_grad;, or it ends in its own line")]] NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// A guard: while it lives, ops on this thread are recorded, also inside a NoGrad.
class EnableGrad {
 public:
  [[nodiscard("give it a name, EnableGrad enable_grad;, or it ends in its own line")]] EnableGrad();
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
/// Cost: one more pass over every result, and on a GPU a wait for it.
/// Throws: the op or backward throws ValueError at the first NaN, and names the forward call that produced it.
class AnomalyMode {
 public:
  [[nodiscard("give it a name, AnomalyMode anomaly_mode;, or it ends in its own line")]] AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;
  static bool enabled();  ///< on this thread

 private:
  bool before_;
};

/// A tensor kept for backward. Reading it after an in-place edit throws AutogradError instead of returning it.
class Saved {
 public:
  Saved() = default;
  /// The tensor, with its history.
  Tensor operator()() const;
  bool defined() const { return tensor_.defined(); }  ///< whether there is a tensor
  /// Whether the tensor required a gradient when it was saved: if not, its gradient need not be computed.
  bool requires_grad() const { return tensor_.defined() && tensor_.requires_grad(); }
  const Shape& shape() const { return tensor_.shape(); }  ///< its sizes

 private:
  friend class Op;
  friend class CheckpointedCall;
  explicit Saved(const Tensor& tensor);

  Tensor tensor_;
  std::shared_ptr<Recomputed> recomputed_;  // set inside of a checkpoint: has the elements, and tensor_ has none
  std::weak_ptr<Node> output_of_;           // set for an output, whose node owns this: a strong one would be a cycle
  uint64_t version_ = 0;
};

/// A primitive op under way: checks that its inputs agree, records the result, and makes sure that it was recorded or
/// declared to have no gradient.
///
///     Tensor exp(const Tensor& x, Where where) {
///       Op op("exp", where, {x});
///       Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
///       backend(y).unary(Unary::exp, detail::view(y), detail::view(x));
///       return op.record(y, [y = op.save_output(y)](const Tensor& g) { return Grads{mul(g, y())}; });
///     }
///
/// The backend and the kernels' names are the library's own. An op outside of it computes its result by other ops, of
/// `x.detach()`, so that these leave no nodes of their own (chapter 15 of the tutorial). One that only changes the
/// gradient records its input, here to reverse it:
///
///     Tensor reverse_gradient(const Tensor& x, Where where = {}) {
///       Op op("reverse_gradient", where, {x});
///       return op.record(x, [](const Tensor& g) { return Grads{-g}; });
///     }
class Op : public Call {
 public:
  /// `inputs` are all tensors that the result depends on; undefined ones stand for absent optional arguments. Throws
  /// when a defined one is on another device than the first.
  Op(const char* name, Where where, std::initializer_list<Tensor> inputs);
  Op(const char* name, Where where, std::vector<Tensor> inputs);
  /// Throws AutogradError when the op ends in none of `record`, `non_differentiable` and `first_derivative_only`.
  ~Op() noexcept(false);

  /// Throws DTypeError unless all defined inputs have one dtype, which it returns.
  DType common_dtype() const;
  /// The same, and a floating one.
  DType floating_dtype() const;
  /// Of an op of a layer, whose first inputs, `count` of them, are what goes through it and the others its
  /// parameters: the dtype of the first ones, which is a floating one. Throws DTypeError unless all have it, but for
  /// parameters of float32 beside bfloat16.
  DType activation_dtype(size_t count = 1) const;

  /// Keeps an input, or anything made from detached inputs, for backward. A checkpoint computes it again instead.
  Saved save(const Tensor& tensor) const;
  /// Keeps the output itself for backward.
  Saved save_output(const Tensor& output);
  /// Whether input `i` wants a gradient.
  bool needs_grad(size_t i) const { return inputs_[i].defined() && inputs_[i].requires_grad(); }

  /// Ends the op: `output` gets a node when any input requires a gradient and recording is on; an input as output is
  /// not changed, the result is another tensor of its elements. `backward` is a Backward, made into one (which
  /// allocates) only then. With several outputs, called for each.
  template <class Function>
  Tensor record(Tensor output, Function&& backward) {
    if (is_input(output)) output = output.detach();  // the node belongs to the result
    return end_with(output) ? add_node(std::move(output), std::forward<Function>(backward)) : output;
  }
  /// The other way to end an op. Throws AutogradError with the reason when a gradient would be lost: when an input
  /// requires one, recording is on, and the output is of a floating dtype; one of bool or integers carries none.
  Tensor non_differentiable(Tensor output, const char* reason);
  /// Ends the backward of a fused op, whose inputs may have lost their history by then. Throws AutogradError when
  /// recording is on, which it is in a backward exactly when second derivatives are asked for; `parts` are the ops to
  /// compose the fused one of to have them.
  void first_derivative_only(const char* parts);

 private:
  bool tracked() const;
  bool is_input(const Tensor& output) const;
  /// Whether this output is to get a node.
  bool end_with(const Tensor& output);
  Tensor add_node(Tensor output, Backward backward);

  std::vector<Tensor> inputs_;
  std::shared_ptr<Node> pending_;
  int exceptions_;
  bool finished_ = false;
};

/// Options of `backward`.
struct BackwardOptions {
  /// The cotangent of the loss. Where it is undefined, the loss must have one element, and its cotangent is 1.
  Tensor grad = {};
  /// Keeps the saved tensors, so that backward can run again: PyTorch's retain_graph.
  bool retain = false;
  /// Records the backward pass itself, for gradients of gradients. Implies `retain`. A leaf and the recorded gradient
  /// in it then keep each other alive until `set_grad({})`. The function `grad` below makes no such cycle.
  bool create_graph = false;
};

/// Adds d loss / d leaf to `grad()` of every leaf that requires it. Results are deterministic. Saved tensors are
/// freed on the way, unless `retain` is set.
///
/// Shapes: `grad` has the loss's shape and dtype.
/// Cost: time and memory grow with the recorded ops. There is no limit on depth.
/// Throws: AutogradError when the loss does not require a gradient, when the tape was walked before, or when a saved
/// tensor was edited since; ShapeError for a loss of several elements without `grad`, and for a `grad` of another
/// shape or dtype; DeviceError for a gradient, given or computed, on another device than its tensor.
void backward(const Tensor& loss, const BackwardOptions& options = {}, Where where = {});

/// Options of `grad`. Those that BackwardOptions has too mean the same.
struct GradOptions {
  /// Cotangents of the outputs. Where there are none, every output must have one element, and its cotangent is 1.
  std::vector<Tensor> grad_outputs = {};
  bool retain = false;        ///< keeps the saved tensors
  bool create_graph = false;  ///< records the backward pass
  /// Leaves an undefined tensor for an input that no output depends on, instead of throwing.
  bool allow_unused = false;
};

/// d outputs / d inputs, one tensor for each input. No `grad()` changes.
///
/// Shapes: each gradient has its input's shape and dtype.
/// Gradient: with `create_graph`, any number of times.
/// Throws: as `backward`; AutogradError also for an input that does not require a gradient or on which no output
/// depends; ValueError unless there are as many grad_outputs as outputs, or none.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {}, Where where = {});

/// The number of tape nodes alive in the process. It does not grow over the steps of a training loop.
int64_t live_tape_nodes();

}  // namespace linnet
