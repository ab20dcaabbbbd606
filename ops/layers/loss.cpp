#include <linnet/ops/layers/loss.h>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/layers/activation.h>

namespace linnet {
namespace {

using detail::dense_rows;
using detail::in_computed;

Tensor reduce(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(losses);
    case Reduction::sum: return sum(losses);
    case Reduction::none: break;
  }
  return losses;
}

void check_class_targets(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() == 0) throw ShapeError("logits must be [..., C], but have rank 0");
  if (!is_integer(targets.dtype())) {
    throw DTypeError(fmt::format("targets must be int64 or int32, not {}; convert with to(DType::int64)",
                                 name_of(targets.dtype())));
  }
  const Shape rows(logits.shape().begin(), logits.shape().end() - 1);
  if (targets.shape() != rows) {
    throw ShapeError(fmt::format("logits{} ask for targets{}, one class each, but targets have shape {}",
                                 to_string(logits.shape()), to_string(rows), to_string(targets.shape())));
  }
}

void check_range(const Tensor& targets, int64_t classes, int64_t ignore_index) {
  Recording::check_values(targets, [=](const Tensor& on_cpu) {
    const Tensor dense = on_cpu.to(DType::int64).contiguous();
    int64_t row = 0;
    for (const int64_t target : dense.data<int64_t>()) {
      if (target != ignore_index && (target < 0 || target >= classes)) {
        throw IndexError(
            fmt::format("target {} of row {} is not a class: there are {}, from 0 on (and ignore_index is {})",
                        target, row, classes, ignore_index));
      }
      ++row;
    }
  });
}

/// The number of targets that are not ignored, as a tensor, so that the host need not wait for it.
Tensor count_targets(const Tensor& targets, int64_t ignore_index, DType dtype) {
  return sum(ne(targets, ignore_index).to(DType::float64)).to(dtype);
}

Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets,
                              const Tensor& max_and_log_sum, const CrossEntropyOptions& options) {
  Op op("cross_entropy_backward", Where{}, {g, logits});
  op.first_derivative_only("log_softmax and gather");
  const Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  const Tensor dlogits_rows = dense_rows(dlogits), logits_rows = dense_rows(logits);
  const Tensor dloss = g.detach().contiguous();
  backend(logits).cross_entropy_backward(detail::view(dlogits_rows), detail::view(dloss),
                                         detail::view(max_and_log_sum), detail::view(logits_rows),
                                         detail::view(targets), options.ignore_index, options.label_smoothing);
  return dlogits;
}

/// The losses [...] of the rows, for contiguous int64 targets.
Tensor row_losses(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  Op op("cross_entropy", Where{}, {logits, targets});
  const Tensor loss = Tensor::empty(targets.shape(), logits.dtype(), logits.device());
  const Tensor max_and_log_sum = Tensor::empty({targets.numel(), 2}, logits.dtype(), logits.device());
  const Tensor logits_rows = dense_rows(logits);
  backend(logits).cross_entropy(detail::view(loss), detail::view(max_and_log_sum), detail::view(logits_rows),
                                detail::view(targets), options.ignore_index, options.label_smoothing);
  return op.record(loss, [logits = op.save(logits), targets = op.save(targets),
                          max_and_log_sum = op.save(max_and_log_sum), options](const Tensor& g) {
    return Grads{cross_entropy_backward(g, logits(), targets(), max_and_log_sum(), options), Tensor()};
  });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, Where where) {
  const Call call("cross_entropy", where);
  if (!is_floating(logits.dtype())) {
    throw DTypeError(
        fmt::format("logits must be floating, not {}; convert with to(DType::float32)", name_of(logits.dtype())));
  }
  check_class_targets(logits, targets);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw ValueError(fmt::format("label_smoothing must be from 0 to 1, not {}", options.label_smoothing));
  }
  check_range(targets, logits.size(-1), options.ignore_index);
  const Tensor classes = targets.to(DType::int64).contiguous();
  const Tensor losses = row_losses(in_computed(logits), classes, options);
  if (options.reduction == Reduction::mean) {
    return div(sum(losses), count_targets(classes, options.ignore_index, losses.dtype()));
  }
  return reduce(losses, options.reduction);
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction, Where where) {
  const Call call("mse_loss", where);
  detail::check_same_shape(input, "input", target, "target");
  for (const Tensor& x : {input, target}) detail::check_floating(x.dtype());
  return reduce(square(sub(in_computed(input), in_computed(target))), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                                        Reduction reduction, Where where) {
  const Call call("binary_cross_entropy_with_logits", where);
  detail::check_same_shape(logits, "logits", targets, "targets");
  // With −log σ(x) = softplus(−x) and −log(1 − σ(x)) = x + softplus(−x):
  //   (1 − t)·x + (1 + (p − 1)·t)·softplus(−x)
  const Tensor x = in_computed(logits), t = in_computed(targets);
  Tensor positive = softplus(neg(x));
  if (pos_weight.defined()) {
    if (broadcast_shapes(pos_weight.shape(), targets.shape()) != targets.shape()) {
      throw ShapeError(fmt::format("pos_weight{} does not broadcast to the shape of targets{}",
                                   to_string(pos_weight.shape()), to_string(targets.shape())));
    }
    positive = mul(add(mul(sub(in_computed(pos_weight), 1), t), 1), positive);
  }
  return reduce(add(mul(sub(1, t), x), positive), reduction);
}

double accuracy(const Tensor& logits, const Tensor& targets, Where where) {
  const Call call("accuracy", where);
  check_class_targets(logits, targets);
  const Tensor right = eq(argmax(in_computed(logits.detach()), -1), targets.to(DType::int64));
  return mean(right.to(DType::float64)).item<double>();
}

}  // namespace linnet
