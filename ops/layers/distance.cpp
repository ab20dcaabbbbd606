#include <linnet/ops/layers/distance.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/losses.h>
#include <linnet/ops/layers/activation.h>

namespace linnet {
namespace {

void check_eps(double eps) {
  if (!(eps >= 0)) throw ValueError(fmt::format("eps is {}; 0 or more is needed", eps));
}

void check_vectors(const Tensor& x, const char* name, int least_rank) {
  detail::check_floating(x.dtype());
  if (x.rank() >= least_rank) return;
  throw ShapeError(fmt::format("{}{} has rank {}; {} is needed", name, to_string(x.shape()), x.rank(),
                               least_rank == 1 ? "[..., D]" : "[..., rows, M]"));
}

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
  check_vectors(x1, "x1", 1);
  check_vectors(x2, "x2", 1);
  check_eps(eps);
  return norm(detail::in_computed(x1) - detail::in_computed(x2) + eps, p, {-1}, keepdim);
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, Where where) {
  const Call call("cdist", where);
  check_vectors(x1, "x1", 2);
  check_vectors(x2, "x2", 2);
  if (x1.size(-1) != x2.size(-1)) {
    throw ShapeError(fmt::format("the rows of x1{} and x2{} differ in length ({} ≠ {})", to_string(x1.shape()),
                                 to_string(x2.shape()), x1.size(-1), x2.size(-1)));
  }
  return norm(detail::in_computed(x1).unsqueeze(-2) - detail::in_computed(x2).unsqueeze(-3), p, {-1});
}

Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                           Reduction reduction, Where where) {
  const Call call("margin_ranking_loss", where);
  detail::check_same_shape(input1, "input1", input2, "input2");
  detail::check_same_shape(input1, "input1", target, "target");
  for (const Tensor& x : {input1, input2}) detail::check_floating(x.dtype());
  detail::check_signs(target);
  const Tensor difference = detail::in_computed(input1) - detail::in_computed(input2);
  return detail::reduce(relu(margin - target.to(difference.dtype()) * difference), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options, Where where) {
  const Call call("triplet_margin_loss", where);
  detail::check_same_shape(anchor, "anchor", positive, "positive");
  detail::check_same_shape(anchor, "anchor", negative, "negative");
  if (!(options.margin > 0))
    throw ValueError(fmt::format("margin is {}; a number above 0 is needed", options.margin));
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, options.p, options.eps);
  };
  Tensor to_negative = distance(anchor, negative);
  if (options.swap) to_negative = minimum(to_negative, distance(positive, negative));
  return detail::reduce(relu(distance(anchor, positive) - to_negative + options.margin), options.reduction);
}

}  // namespace linnet
