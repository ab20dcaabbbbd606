#include <linnet/ops/array/join.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/indexing.h>

namespace linnet {
namespace {

/// Checks that `a` and `b` have the same shape except in `free_dim`.
void check_same_shape(const Shape& a, const Shape& b, size_t number_of_b, int free_dim) {
  bool same = a.rank() == b.rank();
  for (int d = 0; same && d < a.rank(); ++d) same = d == free_dim || a[d] == b[d];
  if (same) return;
  const std::string but = free_dim < 0 ? "" : fmt::format(" in another dim than {}", free_dim);
  throw ShapeError(
      fmt::format("tensor 0 is {}, tensor {} is {}: they differ{}", to_string(a), number_of_b, to_string(b), but));
}

void check_any(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ValueError("no tensors were given; at least one is needed");
}

/// Checks the widths of `pad`.
void check_widths(const Tensor& x, const Shape& widths) {
  if (widths.rank() % 2 != 0 || widths.rank() > 2 * x.rank()) {
    throw ValueError(fmt::format("{} widths for x{}; two a dim are needed, for at most {} dims", widths.rank(),
                                 to_string(x.shape()), x.rank()));
  }
  for (const int64_t width : widths) {
    if (width >= 0) continue;
    throw ValueError(fmt::format("widths {} contain {}; use narrow to cut", to_string(widths), width));
  }
}

/// Where the elements of a dim of size `size` come from, once it is continued by `before` and `after` elements.
Tensor padded_source(PadMode mode, int64_t size, int64_t before, int64_t after) {
  const Tensor place = arange(-before, detail::sum_of_sizes(size, after));
  switch (mode) {
    case PadMode::replicate: return clamp(place, 0, size - 1);
    case PadMode::circular: return remainder(place, size);
    case PadMode::reflect: break;
  }
  return size - 1 - abs(size - 1 - abs(place));
}

/// Checks that a dim is large enough for its padding.
void check_source(PadMode mode, const Shape& shape, int dim, int64_t width) {
  const int64_t size = shape[dim];
  const int64_t most = mode == PadMode::reflect ? size - 1 : size;
  if (size > 0 && (mode == PadMode::replicate || width <= most)) return;
  throw ValueError(fmt::format("a width of {} is too large for dim {} of x{}; {}", width, dim, to_string(shape),
                               mode == PadMode::replicate
                                   ? "an empty dim has no element to repeat"
                                   : fmt::format("it can be at most {}", std::max<int64_t>(most, 0))));
}

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, int64_t dim, Where where) {
  Op op("concat", where, tensors);
  check_any(tensors);
  const Shape& first = tensors[0].shape();
  if (first.rank() == 0) throw ShapeError("tensors of rank 0 have no dim to go along; use stack");
  const int axis = normalise_dim(dim, first.rank());
  Shape shape = first;
  std::vector<int64_t> starts;
  shape[axis] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_same_shape(first, tensors[i].shape(), i, axis);
    starts.push_back(shape[axis]);
    shape[axis] = detail::sum_of_sizes(shape[axis], tensors[i].shape()[axis]);
  }
  Tensor out = Tensor::empty(shape, op.common_dtype(), tensors[0].device());
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor slice = detail::as_strided(out, tensors[i].shape(), out.strides(), starts[i] * out.strides()[axis]);
    backend(out).copy(detail::view(slice), detail::view(tensors[i]));
    sizes.push_back(tensors[i].shape()[axis]);
  }
  return op.record(out, [axis, starts, sizes](const Tensor& g) {
    Grads grads;
    for (size_t i = 0; i < sizes.size(); ++i) grads.push_back(g.narrow(axis, starts[i], sizes[i]));
    return grads;
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim, Where where) {
  Call call("stack", where);
  check_any(tensors);
  const int axis = normalise_dim(dim, tensors[0].rank() + 1);
  std::vector<Tensor> slices;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_same_shape(tensors[0].shape(), tensors[i].shape(), i, -1);
    slices.push_back(tensors[i].unsqueeze(axis));
  }
  return concat(slices, axis);
}

Tensor pad(const Tensor& x, const Shape& widths, Scalar value, Where where) {
  Op op("pad", where, {x});
  check_widths(x, widths);
  Shape shape = x.shape();
  Shape before = Shape::filled(x.rank(), 0);
  for (int i = 0; i < widths.rank(); ++i) {
    const int dim = x.rank() - 1 - i / 2;
    shape[dim] = detail::sum_of_sizes(shape[dim], widths[i]);
    if (i % 2 == 0) before[dim] = widths[i];
  }
  Tensor out = full(shape, value, x.dtype(), x.device());
  int64_t offset = 0;
  for (int d = 0; d < x.rank(); ++d) offset += before[d] * out.strides()[d];
  const Tensor inside = detail::as_strided(out, x.shape(), out.strides(), offset);
  backend(out).copy(detail::view(inside), detail::view(x));
  return op.record(out, [before, sizes = x.shape()](const Tensor& g) {
    Tensor dx = g;
    for (int d = 0; d < sizes.rank(); ++d) dx = dx.narrow(d, before[d], sizes[d]);
    return Grads{dx};
  });
}

Tensor pad(const Tensor& x, const Shape& widths, PadMode mode, Where where) {
  const Call call("pad", where);
  check_widths(x, widths);
  Tensor out = x;
  for (int i = 0; i < widths.rank(); i += 2) {
    const int dim = x.rank() - 1 - i / 2;
    const int64_t before = widths[i], after = widths[i + 1];
    if (before == 0 && after == 0) continue;
    check_source(mode, x.shape(), dim, std::max(before, after));
    const Tensor source = padded_source(mode, x.shape()[dim], before, after);
    out = detail::select_slices(out, dim, Recording::constant(source, x.device()));
  }
  if (std::all_of(widths.begin(), widths.end(), [](int64_t width) { return width == 0; })) return x.clone();
  return out;
}

}  // namespace linnet
