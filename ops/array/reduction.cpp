#include <linnet/ops/array/reduction.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/elementwise.h>
#include <linnet/ops/detail/indexing.h>
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
  const int dim_count = std::max(x.rank(), 1);  // as in PyTorch, rank 0 has a dim 0 too
  Shape reduced = Shape::filled(dim_count, dims.rank() == 0 ? 1 : 0);
  for (const int64_t listed : dims) {
    const int dim = normalise_dim(listed, dim_count);
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

/// The backward of an op that chooses y among x's elements. Equal ones share the gradient evenly, and so do NaNs,
/// which are always chosen.
auto shared_among_equals(Op& op, const Tensor& x, const Tensor& y, const Shape& kept, const Shape& dims) {
  return [x = op.save(x), y = op.save_output(y), kept, dims](const Tensor& g) {
    const Tensor chosen = logical_or(eq(x().detach(), y().detach().reshape(kept)), isnan(x().detach()));
    const Tensor count = sum(chosen.to(g.dtype()), dims, true);
    return Grads{linnet::where(chosen, div(g.reshape(kept), count), 0)};
  };
}

Tensor extreme(const char* name, Reduce kind, const Tensor& x, const Shape& dims, bool keepdim, Where where) {
  Op op(name, where, {x});
  if (x.dtype() == DType::boolean) throw DTypeError("x is bool; use any or all");
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  if (shapes.count == 0) {
    throw ShapeError(
        fmt::format("dims {} of x{} hold no elements to choose from", to_string(dims), to_string(x.shape())));
  }
  Tensor out = reduce(kind, x, shapes, x.dtype());
  return op.record(out, shared_among_equals(op, x, out, shapes.kept, dims));
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

/// Element i of the result is element i − 1 of x along `dim`, or i + 1 when `reverse`; `first` where there is none.
Tensor one_later(const Tensor& x, int dim, bool reverse, double first) {
  if (x.numel() == 0) return x;
  const int64_t rest = x.shape()[dim] - 1;
  const Tensor edge = full_like(x.detach().narrow(dim, 0, 1), first);
  return reverse ? concat({x.narrow(dim, 1, rest), edge}, dim) : concat({edge, x.narrow(dim, 0, rest)}, dim);
}

/// h_i = a_i·h_{i−1} + b_i along `dim`, where h_{−1} is `initial`; from the end when `reverse`.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim, bool reverse, double initial) {
  Op op("linear_recurrence", {}, {a, b});
  Tensor out = Tensor::empty(a.shape(), a.dtype(), a.device());
  backend(out).linear_recurrence(detail::view(out), detail::view(a), detail::view(b), dim, reverse, initial);
  return op.record(out, [a = op.save(a), h = op.save_output(out), dim, reverse, initial](const Tensor& g) {
    // h_i is in h_{i+1} with the factor a_{i+1}: the cotangents d_i = g_i + a_{i+1}·d_{i+1} are a recurrence too.
    const Tensor d = linear_recurrence(one_later(a(), dim, !reverse, 0), g, dim, !reverse, 0);
    return Grads{mul(d, one_later(h(), dim, reverse, initial)), d};
  });
}

/// Inclusive running products. Computed as a recurrence, because its gradient then divides by no element. Its terms
/// are −0, because adding −0 keeps the sign of a 0.
Tensor running_product(const Tensor& x, int dim, bool reverse) {
  const Tensor nothing = full({}, -0.0, x.dtype(), x.device()).expand(x.shape());
  return linear_recurrence(x, nothing, dim, reverse, 1);
}

/// For each element of x the product, in float64, of all others that are reduced with it to `kept`: those before it
/// times those after it.
Tensor products_of_others(const Tensor& x, const Shape& kept) {
  Shape order, inverse = x.shape(), lines;  // the reduced dims go last, as one
  int64_t size = 1;
  for (const bool reduced : {false, true}) {
    for (int d = 0; d < x.rank(); ++d) {
      if ((kept[d] == 1) != reduced) continue;
      inverse[d] = order.rank();
      order.push_back(d);
      if (reduced) size *= x.shape()[d];
      if (!reduced) lines.push_back(x.shape()[d]);
    }
  }
  const int last = lines.rank();
  lines.push_back(size);
  const Tensor ordered = x.to(DType::float64).permute(order), wide = ordered.reshape(lines);
  const Tensor before = running_product(one_later(wide, last, false, 1), last, false);
  const Tensor after = running_product(one_later(wide, last, true, 1), last, true);
  return mul(before, after).reshape(ordered.shape()).permute(inverse);
}

/// The norm for 1 < p < ∞ except 2: the largest |x| times the norm of x divided by it, whose powers neither overflow
/// nor vanish.
Tensor scaled_norm(const Tensor& x, double p, const Shape& dims, bool keepdim, const ReductionShapes& shapes) {
  if (shapes.count == 0) return sum(x, dims, keepdim);
  const Tensor size = abs(x.to(DType::float64)), largest = max(size, dims, true);
  const Tensor unit = masked_fill(largest, logical_or(eq(largest, 0), isinf(largest)), 1);
  return mul(pow(sum(pow(div(size, unit), p), dims, keepdim), 1 / p), unit.reshape(shapes.result));
}

/// The norm for 1 < p < ∞, whose derivative at 0 by the formula is 0/0. Squares of float32 are float64 until the root
/// is taken, because they may overflow a float32.
Tensor finite_norm(const Tensor& x, double p, const Shape& dims, bool keepdim, Where where) {
  Op op("norm", where, {x});
  const DType dtype = op.floating_dtype();
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  Tensor out = p == 2 ? sqrt(reduce(Reduce::sum_squares, x.detach(), shapes, DType::float64))
                      : scaled_norm(x.detach(), p, dims, keepdim, shapes);
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
  const Call call("sum", where);
  return detail::sum_in(sum_dtype(x), x, dims, keepdim, where);
}

Tensor prod(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  const Call call("prod", where);
  if (x.dtype() == DType::bfloat16) return prod(detail::in_computed(x), dims, keepdim).to(x.dtype());
  Op op("prod", where, {x});
  const ReductionShapes shapes = reduction_shapes(x, dims, keepdim);
  Tensor out = reduce(Reduce::prod, x, shapes, sum_dtype(x));
  return op.record(out, [x = op.save(x), kept = shapes.kept](const Tensor& g) {
    return Grads{mul(g.reshape(kept), products_of_others(x(), kept).to(g.dtype()))};
  });
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
  Tensor squares = sum(square(deviation), dims, keepdim);
  // The mean is rounded, so the deviations do not sum to 0. What their sum adds to the squares is a constant: it
  // changes no derivative.
  const Tensor excess = div(square(sum(deviation.detach(), dims, keepdim)), count);
  squares = sub(squares, linnet::where(lt(excess, squares.detach()), excess, 0));
  return div(squares, std::max(count - correction, 0.0)).to(x.dtype());
}

Tensor max(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return extreme("max", Reduce::max, x, dims, keepdim, where);
}

Tensor min(const Tensor& x, const Shape& dims, KeepDim keepdim, Where where) {
  return extreme("min", Reduce::min, x, dims, keepdim, where);
}

namespace {

ValuesAndIndices at_extremes(const Tensor& x, const Tensor& indices, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x.clone(), indices.reshape({})};
  const Tensor values = detail::gather_elements(x, normalise_dim(dim, x.rank()), indices);
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

Tensor median(const Tensor& x, Where where) {
  Op op("median", where, {x});
  if (x.numel() == 0) throw ShapeError(fmt::format("x{} holds no elements to choose from", to_string(x.shape())));
  Tensor out = median(x.detach().flatten(), 0).values;
  return op.record(out, shared_among_equals(op, x, out, Shape::filled(x.rank(), 1), {}));
}

ValuesAndIndices median(const Tensor& x, int64_t dim, KeepDim keepdim, Where where) {
  const Call call("median", where);
  const Tensor first_nan = argmax(x, dim, true);  // where there is a NaN
  if (x.rank() == 0) return at_extremes(x, first_nan, dim, keepdim);
  const int64_t rank = (x.size(dim) - 1) / 2;  // in ascending order, from 0
  const Tensor middle = topk(x.detach(), rank + 1, dim, false).indices.narrow(dim, rank, 1);
  return at_extremes(x, linnet::where(any(isnan(x), {dim}, true), first_nan, middle), dim, keepdim);
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
  // log(sum exp(x)) = m + log(sum exp(x − m)), where m is the maximum, or the finite number next to it.
  const Tensor largest =
      shapes.count == 0 ? Tensor::empty(shapes.kept, x.dtype(), x.device()).fill_(0) : max(detached, dims, true);
  const double bound = detail::largest_finite(x.dtype());
  const Tensor shift = clamp(largest, -bound, bound);
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

Tensor cumprod(const Tensor& x, int64_t dim, Where where) {
  const Call call("cumprod", where);
  if (x.rank() == 0) return cumprod(x.reshape({1}), dim).reshape({});
  const int axis = normalise_dim(dim, x.rank());
  const DType dtype = sum_dtype(x);
  return running_product(x.to(computed_in(dtype)), axis, false).to(dtype);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append, Where where) {
  const Call call("diff", where);
  const int axis = normalise_dim(dim, x.rank());
  if (n < 0) throw ValueError(fmt::format("n is {}; differences are taken at least 0 times", n));
  if (n == 0) return x;
  std::vector<Tensor> parts{x};
  if (prepend.defined()) parts.insert(parts.begin(), prepend);
  if (append.defined()) parts.push_back(append);
  Tensor differences = parts.size() == 1 ? x : concat(parts, axis);
  for (n = std::min(n, differences.shape()[axis]); n > 0; --n) {
    const int64_t rest = differences.shape()[axis] - 1;
    const Tensor later = differences.narrow(axis, 1, rest), earlier = differences.narrow(axis, 0, rest);
    differences = x.dtype() == DType::boolean ? ne(later, earlier) : sub(later, earlier);
  }
  return differences;
}

}  // namespace linnet
