#include <linnet/ops/layers/distance.h>

#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/losses.h>

namespace linnet {
namespace {

void check_eps(double eps) {
  if (!(eps >= 0)) throw ValueError(fmt::format("eps is {}; 0 or more is needed", eps));
}

void check_vectors(const Tensor& x1, const Tensor& x2, int least_rank) {
  for (const auto& [x, name] : {std::pair(x1, "x1"), std::pair(x2, "x2")}) {
    detail::check_floating(x.dtype());
    if (x.rank() >= least_rank) continue;
    throw ShapeError(fmt::format("{}{} has rank {}; {} is needed", name, to_string(x.shape()), x.rank(),
                                 least_rank == 1 ? "[..., D]" : "[..., rows, M]"));
  }
  if (x1.dtype() == x2.dtype()) return;
  throw DTypeError(fmt::format("x1 is {} and x2 is {}; convert one of them with to(DType)", name_of(x1.dtype()),
                               name_of(x2.dtype())));
}

/// pairwise_distance, in the dtype of computation.
Tensor computed_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  check_vectors(x1, x2, 1);
  check_eps(eps);
  return norm(detail::in_computed(x1) - detail::in_computed(x2) + eps, p, {-1}, keepdim);
}

/// max(x, 0), with a gradient at 0 too, as in PyTorch: relu would leave tied scores as they are. NaN has one as well.
Tensor above_zero(const Tensor& x) { return masked_fill(x, lt(x, 0), 0); }

}  // namespace

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps, Where where) {
  const Call call("normalize", where);
  detail::check_floating(x.dtype());
  check_eps(eps);
  const Tensor wide = detail::in_computed(x);  // a bfloat16 is rounded once
  return (wide / maximum(norm(wide, p, {dim}, true), eps)).to(x.dtype());
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim, Where where) {
  const Call call("pairwise_distance", where);
  return computed_distance(x1, x2, p, eps, keepdim).to(x1.dtype());
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, Where where) {
  const Call call("cdist", where);
  check_vectors(x1, x2, 2);
  if (x1.size(-1) != x2.size(-1)) {
    throw ShapeError(fmt::format("the rows of x1{} and x2{} differ in length ({} ≠ {})", to_string(x1.shape()),
                                 to_string(x2.shape()), x1.size(-1), x2.size(-1)));
  }
  if (x1.size(-1) == 0) p = 1;  // all norms of no numbers are 0, but there is no largest number
  const Tensor differences = detail::in_computed(x1).unsqueeze(-2) - detail::in_computed(x2).unsqueeze(-3);
  return norm(differences, p, {-1}).to(x1.dtype());
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                           Reduction reduction, Where where) {
  const Call call("margin_ranking_loss", where);
  detail::check_same_shape(input1, "input1", input2, "input2");
  detail::check_same_shape(input1, "input1", target, "target");
  for (const Tensor& x : {input1, input2}) detail::check_floating(x.dtype());
  detail::check_signs(target);
  const Tensor difference = detail::in_computed(input1) - detail::in_computed(input2);
  return detail::reduce(above_zero(margin - target.to(difference.dtype()) * difference), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options, Where where) {
  const Call call("triplet_margin_loss", where);
  detail::check_same_shape(anchor, "anchor", positive, "positive");
  detail::check_same_shape(anchor, "anchor", negative, "negative");
  if (!(options.margin > 0))
    throw ValueError(fmt::format("margin is {}; a number above 0 is needed", options.margin));
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return computed_distance(a, b, options.p, options.eps, false);
  };
  Tensor to_negative = distance(anchor, negative);
  if (options.swap) to_negative = minimum(to_negative, distance(positive, negative));
  return detail::reduce(above_zero(distance(anchor, positive) - to_negative + options.margin), options.reduction);
}

}  // namespace linnet
