#include <linnet/ops/layers/loss.h>

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/losses.h>
#include <linnet/ops/layers/activation.h>

namespace linnet {
namespace {

using detail::check_signs;
using detail::dense_rows;
using detail::in_computed;
using detail::reduce;

Shape without_last(const Shape& shape) { return {shape.begin(), shape.end() - 1}; }

void check_floating_scores(const Tensor& scores, const char* name) {
  if (is_floating(scores.dtype())) return;
  throw DTypeError(
      fmt::format("{} must be floating, not {}; convert with to(DType::float32)", name, name_of(scores.dtype())));
}

/// A remedy for scores whose classes are dim 1, as in PyTorch.
std::string classes_last(const Tensor& scores, const char* name, const Tensor& targets) {
  const int rank = scores.rank();
  if (rank != targets.rank() + 1 || rank < 3 || rank > 4) return "";
  const std::string moved =
      rank == 3 ? fmt::format("transpose({}, 1, 2)", name) : fmt::format("permute({}, {{0, 2, 3, 1}})", name);
  const Tensor last = rank == 3 ? scores.transpose(1, 2) : scores.permute({0, 2, 3, 1});
  if (without_last(last.shape()) != targets.shape()) return "";
  return fmt::format("; classes are the last dim: did you mean {}?", moved);
}

/// A remedy for targets with a number for each class, which PyTorch takes too.
std::string of_each_class(const Tensor& scores, const char* name, const Tensor& targets) {
  if (scores.rank() < 2 || targets.shape() != scores.shape()) return "";
  const std::string logarithms = std::string(name) == "logits" ? "log_softmax(logits, -1)" : name;
  return fmt::format(
      "argmax(targets, -1) makes classes of one-hot rows; the cross-entropy of probabilities is "
      "-(targets * {}).sum(-1).mean()",
      logarithms);
}

void check_class_targets(const Tensor& scores, const char* name, const Tensor& targets) {
  if (scores.rank() == 0) throw ShapeError(fmt::format("{} must be [..., C], but have rank 0", name));
  const std::string remedy = of_each_class(scores, name, targets);
  if (!is_integer(targets.dtype())) {
    throw DTypeError(fmt::format("targets must be int64 or int32, not {}; {}", name_of(targets.dtype()),
                                 remedy.empty() ? "convert with to(DType::int64)" : remedy));
  }
  const Shape rows = without_last(scores.shape());
  if (targets.shape() != rows) {
    throw ShapeError(fmt::format("{}{} ask for targets{}, one class each, but targets have shape {}{}", name,
                                 to_string(scores.shape()), to_string(rows), to_string(targets.shape()),
                                 remedy.empty() ? classes_last(scores, name, targets) : "; " + remedy));
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

/// input − target, of one shape.
Tensor difference(const Tensor& input, const Tensor& target) {
  detail::check_same_shape(input, "input", target, "target");
  for (const Tensor& x : {input, target}) detail::check_floating(x.dtype());
  return sub(in_computed(input), in_computed(target));
}

/// d²/2 where |d| ≤ delta, delta·(|d| − delta/2) elsewhere: with c, d clamped to [−delta, delta], c·(d − c/2).
Tensor huber(const Tensor& d, double delta) {
  const Tensor c = clamp(d, -delta, delta);
  return mul(c, sub(d, mul(c, 0.5)));
}

/// `factor` of losses that have the shape of the targets, in the dtype of the losses.
Tensor factor_beside(const Tensor& targets, const char* targets_name, const Tensor& factor, const char* name) {
  if (broadcast_shapes(factor.shape(), targets.shape()) != targets.shape()) {
    throw ShapeError(fmt::format("{}{} does not broadcast to the shape of {}{}", name, to_string(factor.shape()),
                                 targets_name, to_string(targets.shape())));
  }
  return in_computed(factor);
}

/// −(t·log x + (1 − t)·log(1 − x)) with logarithms raised to at least −100. The gradient is that without this bound,
/// with a divisor of at least 1e-12. Both are as in PyTorch.
Tensor binary_losses(const Tensor& x, const Tensor& t) {
  Op op("binary_cross_entropy", Where{}, {x, t});
  op.floating_dtype();
  Tensor losses;
  {
    const NoGrad no_grad;
    losses = sub(mul(sub(t, 1), clamp(log1p(neg(x)), -100)), mul(t, clamp(log(x), -100)));
  }
  return op.record(losses, [x = op.save(x), t = op.save(t), needs_t = op.needs_grad(1)](const Tensor& g) {
    const Tensor divisor = maximum(mul(x(), sub(1, x())), 1e-12);
    return Grads{mul(g, div(sub(x(), t()), divisor)), needs_t ? mul(g, sub(log1p(neg(x())), log(x()))) : Tensor{}};
  });
}

Tensor cross_entropy_backward(const Tensor& g, const Tensor& logits, const Tensor& targets,
                              const Tensor& max_and_log_sum, const CrossEntropyOptions& options) {
  Op op("cross_entropy_backward", Where{}, {g, logits});
  op.first_derivative_only("log_softmax and gather");
  const Tensor dlogits = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  const Tensor dlogits_rows = dense_rows(dlogits), logits_rows = dense_rows(logits);
  const Tensor dloss = detail::dense(g);
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

Tensor detail::reduce(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean: return mean(losses);
    case Reduction::sum: return sum(losses);
    case Reduction::batchmean: throw ValueError("the reduction batchmean is for kl_div alone; take mean");
    case Reduction::none: break;
  }
  return losses;
}

void detail::check_signs(const Tensor& targets) {
  Recording::check_values(targets, [](const Tensor& on_cpu) {
    for (const double target : on_cpu.to_vector<double>()) {
      if (target == 1 || target == -1) continue;
      throw ValueError(fmt::format(
          "target {} is neither 1, for pairs that belong together, nor -1; 2 * target - 1 turns 1 and 0 into these",
          target));
    }
  });
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options, Where where) {
  const Call call("cross_entropy", where);
  check_floating_scores(logits, "logits");
  check_class_targets(logits, "logits", targets);
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

Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NllLossOptions& options, Where where) {
  const Call call("nll_loss", where);
  check_floating_scores(log_probs, "log_probs");
  check_class_targets(log_probs, "log_probs", targets);
  const int64_t classes = log_probs.size(-1);
  check_range(targets, classes, options.ignore_index);
  if (options.weight.defined() && options.weight.shape() != Shape{classes}) {
    throw ShapeError(fmt::format("weight{} must have one factor for each class of log_probs{}",
                                 to_string(options.weight.shape()), to_string(log_probs.shape())));
  }
  const Tensor column = targets.to(DType::int64).unsqueeze(-1);
  const Tensor is_target = logical_and(eq(column, Recording::constant(arange(classes), targets.device())),
                                       ne(column, options.ignore_index));
  const auto at_targets = [&](const Tensor& x) { return sum(linnet::where(is_target, in_computed(x), 0), {-1}); };
  Tensor losses = sub(0, at_targets(log_probs)), counts;
  if (options.weight.defined()) {
    counts = at_targets(options.weight);
    losses = mul(counts, losses);
  }
  if (options.reduction != Reduction::mean) return reduce(losses, options.reduction);
  return div(sum(losses),
             counts.defined() ? sum(counts) : count_targets(column, options.ignore_index, losses.dtype()));
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction, Where where) {
  const Call call("mse_loss", where);
  return reduce(square(difference(input, target)), reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, Where where) {
  const Call call("l1_loss", where);
  return reduce(abs(difference(input, target)), reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta, Where where) {
  const Call call("huber_loss", where);
  if (!(delta > 0)) throw ValueError(fmt::format("delta is {}; it must be above 0", delta));
  return reduce(huber(difference(input, target), delta), reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta, Where where) {
  const Call call("smooth_l1_loss", where);
  if (!(beta >= 0)) throw ValueError(fmt::format("beta is {}; it must be 0 or more", beta));
  if (beta == 0) return l1_loss(input, target, reduction);
  return reduce(div(huber(difference(input, target), beta), beta), reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction, bool log_target, Where where) {
  const Call call("kl_div", where);
  if (!is_floating(target.dtype())) {
    throw DTypeError(
        fmt::format("target must be probabilities, not {}; for classes use nll_loss, or one_hot(target, classes, "
                    "input.dtype()) as the target",
                    name_of(target.dtype())));
  }
  detail::check_same_shape(input, "input", target, "target");
  const Tensor x = in_computed(input), t = in_computed(target);
  // A probability of 0 adds 0, so its logarithm counts as 0, and so does an infinite input.
  const Tensor p = log_target ? exp(t) : t, is_zero = eq(p, 0);
  const Tensor log_p = log_target ? masked_fill(t, is_zero, 0) : log(masked_fill(t, is_zero, 1));
  const Tensor losses = mul(p, sub(log_p, masked_fill(x, logical_and(is_zero, isinf(x)), 0)));
  if (reduction != Reduction::batchmean) return reduce(losses, reduction);
  return div(sum(losses), input.rank() > 0 ? input.size(0) : 1);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllLossOptions& options, Where where) {
  const Call call("gaussian_nll_loss", where);
  const Tensor d = difference(input, target);
  detail::check_floating(var.dtype());
  const bool is_of_rows = var.rank() < input.rank() && var.shape() == without_last(input.shape());
  Tensor v = is_of_rows ? var.unsqueeze(-1) : var;
  if (v.rank() != input.rank() || broadcast_shapes(v.shape(), input.shape()) != input.shape()) {
    throw ShapeError(fmt::format("var{} must have the shape of input{}, or sizes of 1 in it, or no last dim",
                                 to_string(var.shape()), to_string(input.shape())));
  }
  if (!Recording::is_under_way() && any(lt(v, 0)).item<bool>()) {
    throw ValueError("var has a negative element; exp() or softplus() of what a model computes makes it positive");
  }
  v = in_computed(v);
  v = add(v, relu(sub(options.eps, v)).detach());  // as PyTorch: at least eps, with the gradient of v
  const Tensor losses = mul(add(log(v), div(square(d), v)), 0.5);
  return reduce(options.full ? add(losses, 0.5 * std::log(2 * std::numbers::pi)) : losses, options.reduction);
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps, Where where) {
  const Call call("cosine_similarity", where);
  const Shape shape = broadcast_shapes(x1.shape(), x2.shape());
  const auto unit = [&](const Tensor& x) {
    detail::check_floating(x.dtype());
    const Tensor expanded = in_computed(x).expand(shape);
    return div(expanded, maximum(norm(expanded, 2, {dim}, true), eps));
  };
  return sum(mul(unit(x1), unit(x2)), {dim});
}

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin,
                             Reduction reduction, Where where) {
  const Call call("cosine_embedding_loss", where);
  detail::check_same_shape(x1, "x1", x2, "x2");
  if (x1.rank() == 0 || target.shape() != without_last(x1.shape())) {
    throw ShapeError(fmt::format("x1{} must be [..., D] and target{} [...], one for each vector",
                                 to_string(x1.shape()), to_string(target.shape())));
  }
  check_signs(target);
  const Tensor cosine = cosine_similarity(x1, x2, -1);
  const Tensor above = linnet::where(lt(cosine, margin), 0, sub(cosine, margin));
  return reduce(linnet::where(eq(target, 1), sub(1, cosine), above), reduction);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin, Reduction reduction,
                            Where where) {
  const Call call("hinge_embedding_loss", where);
  detail::check_same_shape(input, "input", target, "target");
  detail::check_floating(input.dtype());
  check_signs(target);
  const Tensor x = in_computed(input);
  const Tensor up_to_margin = linnet::where(gt(x, margin), 0, sub(margin, x));
  return reduce(linnet::where(eq(target, 1), x, up_to_margin), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options, Where where) {
  const Call call("binary_cross_entropy_with_logits", where);
  detail::check_same_shape(logits, "logits", targets, "targets");
  // With −log σ(x) = softplus(−x) and −log(1 − σ(x)) = x + softplus(−x):
  //   (1 − t)·x + (1 + (p − 1)·t)·softplus(−x)
  const Tensor x = in_computed(logits), t = in_computed(targets);
  Tensor positive = softplus(neg(x));
  if (options.pos_weight.defined()) {
    const Tensor p = factor_beside(targets, "targets", options.pos_weight, "pos_weight");
    positive = mul(add(mul(sub(p, 1), t), 1), positive);
  }
  const Tensor losses = add(mul(sub(1, t), x), positive);
  if (!options.weight.defined()) return reduce(losses, options.reduction);
  return reduce(mul(factor_beside(targets, "targets", options.weight, "weight"), losses), options.reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options,
                            Where where) {
  const Call call("binary_cross_entropy", where);
  if (options.pos_weight.defined()) {
    throw ValueError("pos_weight is for binary_cross_entropy_with_logits; give its factors in weight");
  }
  detail::check_same_shape(input, "input", target, "target");
  const Tensor losses = binary_losses(in_computed(input), in_computed(target));
  if (!options.weight.defined()) return reduce(losses, options.reduction);
  return reduce(mul(factor_beside(target, "target", options.weight, "weight"), losses), options.reduction);
}

double accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index, Where where) {
  const Call call("accuracy", where);
  check_class_targets(logits, "logits", targets);
  check_range(targets, logits.size(-1), ignore_index);
  const Tensor classes = targets.to(DType::int64);
  const Tensor right = eq(argmax(in_computed(logits.detach()), -1), classes);
  const Tensor count = sum(logical_and(right, ne(classes, ignore_index))).to(DType::float64);
  return div(count, count_targets(classes, ignore_index, DType::float64)).item<double>();
}

}  // namespace linnet
