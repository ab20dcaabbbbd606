#include <linnet/ops/array/sorting.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/position.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/indexing.h>

namespace linnet {
namespace {

/// The first `count` elements of each sorted row.
ValuesAndIndices sort_rows(const Tensor& x, int64_t count, bool descending) {
  Op op("sort", {}, {x});
  Shape shape = x.shape();
  shape[x.rank() - 1] = count;
  Tensor values = Tensor::empty(shape, x.dtype(), x.device());
  Tensor indices = Tensor::empty(shape, DType::int64, x.device());
  backend(values).sort(detail::view(values), detail::view(indices), detail::view(x), descending);
  values = op.record(values, [indices = op.save(indices), from = x.shape()](const Tensor& g) {
    return Grads{detail::scatter_add_elements(zeros(from, g.dtype(), g.device()), from.rank() - 1, indices(), g)};
  });
  return {values, indices};
}

/// The first `count` elements of each sorted line along dim `axis`.
ValuesAndIndices sort_along(const Tensor& x, int axis, int64_t count, bool descending) {
  if (axis == x.rank() - 1) return sort_rows(x, count, descending);
  const ValuesAndIndices sorted = sort_rows(x.transpose(axis, -1), count, descending);
  return {sorted.values.transpose(axis, -1), sorted.indices.transpose(axis, -1)};
}

/// Checks that `samples` classes can be drawn from every row.
void check_probabilities(const Tensor& p, int64_t samples, bool replacement) {
  const Tensor host = p.to(Device::cpu);
  const std::span<const double> values = host.data<double>();
  const int64_t classes = p.size(-1);
  if (classes == 0) throw ShapeError(fmt::format("probabilities{} have no classes", to_string(p.shape())));
  const int64_t needed = replacement ? 1 : samples;
  int64_t positive = 0;
  for (int64_t i = 0; i < p.numel(); ++i) {
    if (!(values[i] >= 0) || std::isinf(values[i])) {
      throw ValueError(fmt::format("probabilities{} is {}; each must be finite and at least 0",
                                   to_string(detail::position_of(i, p.shape())), values[i]));
    }
    positive += values[i] > 0;
    if (i % classes != classes - 1) continue;
    if (positive < needed) {
      Shape row = detail::position_of(i, p.shape());
      row.erase(row.rank() - 1);
      throw ValueError(fmt::format(
          "row {} of probabilities{} has {} positive entries; {} are needed for {} samples "
          "{} replacement",
          to_string(row), to_string(p.shape()), positive, needed, samples, replacement ? "with" : "without"));
    }
    positive = 0;
  }
}

/// Samples with replacement, by the inverse of the distribution function: class c is that of a uniform number from
/// the sum of the probabilities before c on, and below the sum with that of c. So no class of probability 0 is drawn.
Tensor sample_independently(const Tensor& p, int64_t samples, Generator& generator) {
  const Tensor sums = cumsum(div(p, max(p, {-1}, true)), -1);  // divided, so that they do not overflow
  const Tensor total = sums.narrow(-1, p.size(-1) - 1, 1);
  Shape shape = p.shape();
  shape[p.rank() - 1] = samples;
  const Tensor at = mul(rand(shape, generator, DType::float64, p.device()), total);
  // A product that is rounded up to the total belongs to the last class with a probability.
  return minimum(searchsorted(sums, at, true), searchsorted(sums, total));
}

/// Samples without replacement, by exponential races: class c has the time E_c / p_c, where E_c is exponential. The
/// smallest time is that of c with probability p_c / sum p, and the smallest times are samples. p_c = 0 has an
/// infinite time. Times are logarithms, so that nothing underflows.
Tensor sample_by_races(const Tensor& p, int64_t samples, Generator& generator) {
  const Tensor uniform = rand(p.shape(), generator, DType::float64, p.device());
  const Tensor exponential = clamp(neg(log(sub(1, uniform))), std::numeric_limits<double>::min());
  const Tensor speed = sub(log(p), log(exponential));
  return samples == 1 ? argmax(speed, -1, true) : topk(speed, samples).indices;
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending, Where where) {
  Call call("sort", where);
  if (x.rank() == 0) {
    const ValuesAndIndices sorted = sort(x.reshape({1}), dim, descending);
    return {sorted.values.reshape({}), sorted.indices.reshape({})};
  }
  return sort_along(x, normalise_dim(dim, x.rank()), x.size(dim), descending);
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending, Where where) {
  const Call call("argsort", where);
  return sort(x.detach(), dim, descending).indices;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest, Where where) {
  Call call("topk", where);
  if (x.rank() == 0) {
    if (k != 1) throw ValueError(fmt::format("k is {}; x[] has 1 element to choose from, so k is 1", k));
    const ValuesAndIndices sorted = topk(x.reshape({1}), k, dim, largest);
    return {sorted.values.reshape({}), sorted.indices.reshape({})};
  }
  const int64_t size = x.size(dim);
  if (k < 0 || k > size) {
    throw ValueError(
        fmt::format("k is {}; dim {} of x{} has {} elements to choose from", k, dim, to_string(x.shape()), size));
  }
  const ValuesAndIndices sorted = sort_along(x, normalise_dim(dim, x.rank()), k, largest);
  return {sorted.values.contiguous(), sorted.indices.contiguous()};
}

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, bool right, Where where) {
  const Call call("searchsorted", where);
  const Tensor sequence = sorted_sequence.detach(), wanted = values.detach();
  if (sequence.rank() == 0) throw ShapeError("the sorted sequence has rank 0; [..., n] is needed");
  if (sequence.rank() == 1 && values.rank() != 1) {
    return searchsorted(sequence, wanted.flatten(), right).reshape(values.shape());
  }
  Shape lines = sequence.shape();
  lines[lines.rank() - 1] = values.rank() == 0 ? 0 : values.size(-1);
  if (!(lines == values.shape())) {
    throw ShapeError(
        fmt::format("sorted_sequence{} and values{} differ in another dim than the last; a sequence of "
                    "rank 1 serves all values",
                    to_string(sequence.shape()), to_string(values.shape())));
  }
  const int64_t size = sequence.size(-1);
  Tensor place = zeros(values.shape(), DType::int64, values.device());  // at least this many come before
  int64_t step = 1;
  while (2 * step <= size) step *= 2;
  for (; size > 0 && step > 0; step /= 2) {
    const Tensor next = add(place, step), last = sub(next, 1);  // can as many as `next` come before?
    const Tensor element = detail::gather_elements(sequence, sequence.rank() - 1, minimum(last, size - 1));
    const Tensor too_large = right ? gt(element, wanted) : ge(element, wanted);
    place = linnet::where(logical_or(too_large, ge(last, size)), place, next);
  }
  return place;
}

Tensor multinomial(const Tensor& probabilities, int64_t samples, Generator& generator, bool replacement,
                   Where where) {
  Op op("multinomial", where, {probabilities});
  op.floating_dtype();
  if (probabilities.rank() == 0) throw ShapeError("probabilities have rank 0; [..., C] is needed");
  if (samples < 1) throw ValueError(fmt::format("samples is {}; at least 1 is needed", samples));
  const Tensor p = probabilities.detach().to(DType::float64).contiguous();
  check_probabilities(p, samples, replacement);
  return op.non_differentiable((replacement ? sample_independently : sample_by_races)(p, samples, generator),
                               "its result is a draw");
}

}  // namespace linnet
