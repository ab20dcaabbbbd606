#include <linnet/ops/array/reduction.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/sum.h>

namespace linnet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The shapes of a reduction's result.
struct ReductionShapes {
  Shape kept;         ///< x's shape with 1 for the reduced dims
  Shape result;       ///< `kept`, or without keepdim x's shape without the reduced dims
  int64_t count = 1;  ///< the number of elements of x for each element of the result
};

ReductionShapes reduction_shapes(const Tensor& x, const Shape& dims, bool keepdim) {
  ReductionShapes shapes;
  shapes.kept = x.shape();
  Shape reduced = Shape::filled(x.rank(), dims.rank() == 0 ? 1 : 0);
  for (const int64_t listed : dims) {
    const int dim = normalise_dim(listed, x.rank());
    if (reduced[dim]) {
      throw ShapeError(fmt::format("dims {} name dim {} of x{} twice", to_string(dims), dim, to_string(x.shape())));
    }
    reduced[dim] = 1;
  }
  for (int d = 0; d < x.rank(); ++d) {
    if (reduced[d]) {
      shapes.count *= x.shape()[d];
      shapes.kept[d] = 1;
    }
    if (keepdim || !reduced[d]) shapes.result.push_back(shapes.kept[d]);
  }
  return shapes;
}

Tensor reduce(Reduce op, const Tensor& x, const ReductionShapes& shapes, DType dtype) {
  Tensor out = Tensor::empty(shapes.result, dtype, x.device());
  const Tensor kept = detail::as_strided(out, shapes.kept, contiguous_strides(shapes.kept), 0);
  backend(out).reduce(op, detail::view(kept), detail::view(x));
  return out;
}

DType sum_dtype(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::int64; }

Tensor extreme(const char* name, Reduce kind, const Tensor& x, const Shape& dims, bool keepdim, Where where) {
  Op op(name, where, {x});
  if (x.dtype() == DType::boolean) throw DTypeError("x is bool; use any or all");
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  if (shapes.count == 0) {
    throw ShapeError(
        fmt::format("dims {} of x{} hold no elements to choose from", to_string(dims), to_string(x.shape())));
  }
  Tensor out = reduce(kind, x, shapes, x.dtype());
  return op.record(out, [x = op.save(x), y = op.save_output(out), kept = shapes.kept, dims](const Tensor& g) {
    const Tensor chosen = eq(x().detach(), y().detach().reshape(kept)).to(g.dtype());
    return Grads{mul(chosen, div(g.reshape(kept), sum(chosen, dims, true)))};
  });
}

Tensor arg_extreme(const char* name, ArgReduce kind, const Tensor& x, int64_t dim, bool keepdim, Where where) {
  Op op(name, where, {x});
  if (x.dtype() == DType::boolean) throw DTypeError("x is bool; convert it with to(DType::int32)");
  const bool is_scalar = x.rank() == 0;  // treated as [1]
  const Tensor rows = is_scalar ? x.detach().reshape({1}) : x;
  const int axis = normalise_dim(dim, rows.rank());
  if (rows.shape()[axis] == 0) {
    throw ShapeError(fmt::format("dim {} of x{} holds no elements to choose from", axis, to_string(x.shape())));
  }
  Shape kept = rows.shape();
  kept[axis] = 1;
  Tensor out = Tensor::empty(kept, DType::int64, x.device());
  backend(out).arg_reduce(kind, detail::view(out), detail::view(rows), axis);
  if (!keepdim || is_scalar) out = out.squeeze(axis);
  return op.non_differentiable(out, "its result is an index");
}

Tensor truth(const char* name, Reduce kind, const Tensor& x, const Shape& dims, bool keepdim, Where where) {
  Op op(name, where, {x});
  Tensor out = reduce(kind, x, reduction_shapes(x, dims, keepdim), DType::boolean);
  return op.non_differentiable(out, "its result is a truth value");
}

Tensor running_sum(const Tensor& x, int dim, bool reverse, Where where) {
  Op op("cumsum", where, {x});
  Tensor out = Tensor::empty(x.shape(), sum_dtype(x), x.device());
  backend(out).cumsum(detail::view(out), detail::view(x), dim, reverse);
  // Element i is part of the sums from i on, so its gradient is the sum of their gradients.
  return op.record(out, [dim, reverse](const Tensor& g) { return Grads{running_sum(g, dim, !reverse, {})}; });
}

/// The norm for 1 < p < ∞, whose derivative at 0 by the formula is 0/0. Powers are float64 until the root is taken,
/// because they may overflow a float32.
Tensor finite_norm(const Tensor& x, double p, const Shape& dims, bool keepdim, Where where) {
  Op op("norm", where, {x});
  const DType dtype = op.floating_dtype();
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  Tensor out = p == 2 ? sqrt(reduce(Reduce::sum_squares, x.detach(), shapes, DType::float64))
                      : pow(sum(pow(abs(x.detach().to(DType::float64)), p), dims, keepdim), 1 / p);
  out = out.to(dtype);
  return op.record(out, [x = op.save(x), y = op.save_output(out), p, kept = shapes.kept](const Tensor& g) {
    const Tensor norms = y().reshape(kept), at_zero = eq(norms, 0);
    const Tensor divisor = masked_fill(norms, at_zero, 1), factor = masked_fill(g.reshape(kept), at_zero, 0);
    if (p == 2) return Grads{mul(div(x(), divisor), factor)};
    // The gradient is sign(x)·(|x|/norm)^(p − 1). It is computed as sign(x)·(|x|/n)^(p − 1) · (n/norm)^(p − 1), where
    // n is the norm without history, so that powers do not overflow. The second factor is 1 and carries the
    // derivative by the norm: an infinite derivative of |x|^(p − 1) at one x = 0 then does not reach the other
    // elements.
    const Tensor number = divisor.detach();
    const Tensor slope = mul(sign(x()), pow(abs(div(x(), number)), p - 1));
    const Tensor ratio = masked_fill(div(number, divisor), eq(norms.detach(), kInfinity), 1);  // not ∞/∞
    return Grads{mul(slope, mul(factor, pow(ratio, p - 1)))};
  });
}

}  // namespace

Tensor detail::sum_in(DType dtype, const Tensor& x, const Shape& dims, bool keepdim, Where where) {
  Op op("sum", where, {x});
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  Tensor out = reduce(Reduce::sum, x, shapes, dtype);
  return op.record(out, [kept = shapes.kept, shape = x.shape(), dtype = x.dtype()](const Tensor& g) {
    return Grads{g.to(dtype).reshape(kept).expand(shape)};
  });
}

Tensor sum(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return detail::sum_in(sum_dtype(x), x, dims, keepdim, where);
}

Tensor mean(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  Call call("mean", where);
  detail::check_floating(x.dtype());
  const Tensor total = detail::sum_in(computed_in(sum_dtype(x)), x, dims, keepdim);
  return div(total, reduction_shapes(x, dims, keepdim).count).to(x.dtype());
}

Tensor var(const Tensor& x, const Shape& dims, double correction, KeepDim keepdim, Where where) {
  Call call("var", where);
  const double count = static_cast<double>(reduction_shapes(x, dims, keepdim).count);
  const Tensor wide = detail::in_computed(x), deviation = sub(wide, mean(wide, dims, true));
  return div(sum(square(deviation), dims, keepdim), std::max(count - correction, 0.0)).to(x.dtype());
}

Tensor max(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return extreme("max", Reduce::max, x, dims, keepdim, where);
}

Tensor min(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return extreme("min", Reduce::min, x, dims, keepdim, where);
}

namespace {

ValuesAndIndices at_extremes(const Tensor& x, const Tensor& indices, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x, indices.reshape({})};
  const Tensor values = gather(x, dim, indices);
  return keepdim ? ValuesAndIndices{values, indices} : ValuesAndIndices{values.squeeze(dim), indices.squeeze(dim)};
}

}  // namespace

ValuesAndIndices detail::max_along(const Tensor& x, int64_t dim, bool keepdim, Where where) {
  const Call call("max", where);
  return at_extremes(x, argmax(x, dim, true), dim, keepdim);
}

ValuesAndIndices detail::min_along(const Tensor& x, int64_t dim, bool keepdim, Where where) {
  const Call call("min", where);
  return at_extremes(x, argmin(x, dim, true), dim, keepdim);
}

Tensor argmax(const Tensor& x, int64_t dim, KeepDim keepdim, Where where) {
  return arg_extreme("argmax", ArgReduce::max, x, dim, keepdim, where);
}

Tensor argmin(const Tensor& x, int64_t dim, KeepDim keepdim, Where where) {
  return arg_extreme("argmin", ArgReduce::min, x, dim, keepdim, where);
}

Tensor logsumexp(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  Op op("logsumexp", where, {x});
  op.floating_dtype();
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  const Tensor detached = x.detach();
  // log(sum exp(x)) = m + log(sum exp(x − m)), where m is the maximum, or 0 where the maximum is not finite.
  const Tensor largest =
      shapes.count == 0 ? Tensor::empty(shapes.kept, x.dtype(), x.device()).fill_(0) : max(detached, dims, true);
  const Tensor shift = masked_fill(largest, eq(abs(largest), kInfinity), 0);
  Tensor out = add(log(sum(exp(sub(detached, shift)), dims, true)), shift).reshape(shapes.result);
  return op.record(out, [x = op.save(x), shift = op.save(shift), dims](const Tensor& g) {
    // The gradient is softmax(x) = terms / total. exp(x − y) would lack the digits that y lost in rounding. Where all
    // of x is −inf, the terms and the gradient are 0.
    const Tensor terms = exp(sub(x(), shift()));
    const Tensor total = sum(terms, dims, true);
    const Tensor nonzero = masked_fill(total, eq(total.detach(), 0), 1);
    return Grads{mul(div(g.reshape(total.shape()), nonzero), terms)};
  });
}

Tensor any(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return truth("any", Reduce::any, x, dims, keepdim, where);
}

Tensor all(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return truth("all", Reduce::all, x, dims, keepdim, where);
}

Tensor norm(const Tensor& x, double p, const Shape& dims, KeepDim keepdim, Where where) {
  Call call("norm", where);
  detail::check_floating(x.dtype());
  if (!(p >= 1)) throw ValueError(fmt::format("p is {}; a norm needs p of at least 1", p));
  if (x.dtype() == DType::bfloat16) return norm(detail::in_computed(x), p, dims, keepdim).to(x.dtype());
  if (p == 1) return sum(abs(x), dims, keepdim);
  if (p == kInfinity) return max(abs(x), dims, keepdim);
  return finite_norm(x, p, dims, keepdim, where);
}

Tensor cumsum(const Tensor& x, int64_t dim, Where where) {
  Call call("cumsum", where);
  if (x.rank() == 0) return cumsum(x.reshape({1}), dim).reshape({});
  return running_sum(x, normalise_dim(dim, x.rank()), false, where);
}

}  // namespace linnet
