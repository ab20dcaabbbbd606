#include <linnet/ops/array/join.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/creation.h>

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
    shape[axis] += tensors[i].shape()[axis];
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
  if (widths.rank() % 2 != 0 || widths.rank() > 2 * x.rank()) {
    throw ValueError(fmt::format("{} widths for x{}; two a dim are needed, for at most {} dims", widths.rank(),
                                 to_string(x.shape()), x.rank()));
  }
  Shape shape = x.shape();
  Shape before = Shape::filled(x.rank(), 0);
  for (int i = 0; i < widths.rank(); ++i) {
    if (widths[i] < 0) {
      throw ValueError(fmt::format("widths {} contain {}; use narrow to cut", to_string(widths), widths[i]));
    }
    const int dim = x.rank() - 1 - i / 2;
    shape[dim] += widths[i];
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

}  // namespace linnet
