#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/tensor.h>
#include <linnet/core/views.h>

/// Views and copies with their adjoints. The backward of a view is a view of the gradient, with two exceptions. Views
/// that drop elements: the backward of `slice` returns a PartialGrad, and that of `diagonal` fills in zeros. Views
/// that repeat elements: the engine sums the gradient of `expand`.

namespace linnet {
namespace {

/// The strides of a view of `shape` into a tensor of shape `from` and `strides`, if such a view exists.
std::optional<Strides> view_strides(const Shape& from, const Strides& strides, const Shape& shape) {
  if (from.numel() == 0) return contiguous_strides(shape);
  Strides result = Shape::filled(shape.rank(), 1);
  int to = shape.rank() - 1;
  int64_t count = 1;  // the number of evenly spaced elements in the innermost dims of `from`
  int64_t spacing = 1;
  bool started = false;
  const auto place = [&]() -> bool {
    int64_t left = count;
    int64_t stride = spacing;
    while (to >= 0 && (left > 1 || shape[to] == 1)) {
      if (left % shape[to] != 0) return false;
      result[to] = stride;
      stride *= shape[to];
      left /= shape[to];
      --to;
    }
    return left == 1;
  };
  for (int d = from.rank() - 1; d >= 0; --d) {
    if (from[d] == 1) continue;
    if (started && strides[d] == spacing * count) {
      count *= from[d];
      continue;
    }
    if (started && !place()) return std::nullopt;
    started = true;
    count = from[d];
    spacing = strides[d];
  }
  if (!place()) return std::nullopt;
  return result;
}

/// `shape` with its −1, if any, replaced so that it has as many elements as `from`.
Shape complete_shape(Shape shape, const Shape& from) {
  int unknown = -1;
  Shape others = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == -1 && unknown < 0) {
      unknown = d;
      others[d] = 1;
    } else if (shape[d] < 0) {
      throw ShapeError(fmt::format("shape {} has a negative size; only one may be -1", to_string(shape)));
    }
  }
  const int64_t known = checked_numel(others);
  if (unknown >= 0 && known > 0 && from.numel() % known == 0) shape[unknown] = from.numel() / known;
  if (unknown >= 0 && known == 0 && from.numel() == 0) {
    throw ShapeError(
        fmt::format("the -1 in shape {} is ambiguous for an empty tensor; name every size", to_string(shape)));
  }
  if (shape.numel() != from.numel() || (unknown >= 0 && shape[unknown] < 0)) {
    throw ShapeError(
        fmt::format("shape {} does not hold the {} elements of {}", to_string(shape), from.numel(), to_string(from)));
  }
  return shape;
}

/// Indices start, start + step, … (count of them) of `dim`.
Tensor take_slice(Op& op, const Tensor& x, int dim, int64_t start, int64_t count, int64_t step) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t offset = start * strides[dim];
  shape[dim] = count;
  if (count < 2) step = 1;  // the step does not matter, and products with 1 do not overflow
  strides[dim] *= step;
  return op.record(detail::as_strided(x, shape, strides, offset),
                   [dim, start, step](const Tensor& g) { return Grads{PartialGrad{g, dim, start, step}}; });
}

/// A view of the elements of `x` whose indices in dims d1 and d2 are i and i + offset; its last dim is i.
Tensor diagonal_of(const Tensor& x, int64_t offset, int d1, int d2) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  offset = std::clamp(offset, -shape[d1], shape[d2]);
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(shape[d1] - row, shape[d2] - column), 0);
  const int64_t start = count > 0 ? row * strides[d1] + column * strides[d2] : 0, step = strides[d1] + strides[d2];
  for (const int d : {std::max(d1, d2), std::min(d1, d2)}) {
    shape.erase(d);
    strides.erase(d);
  }
  shape.push_back(count);
  strides.push_back(step);
  return detail::as_strided(x, shape, strides, start);
}

Tensor recorded_diagonal(const Tensor& x, int64_t offset, int d1, int d2, Where where);

/// Zeros of `shape` with `grad` on a diagonal: the adjoint of `diagonal`.
Tensor place_diagonal(const Tensor& grad, const Shape& shape, int64_t offset, int d1, int d2) {
  Op op("place_diagonal", Where{}, {grad});
  Tensor whole = Tensor::empty(shape, grad.dtype(), grad.device());
  backend(whole).fill(detail::view(whole), 0);
  backend(whole).copy(detail::view(diagonal_of(whole, offset, d1, d2)), detail::view(grad));
  return op.record(
      whole, [offset, d1, d2](const Tensor& g) { return Grads{recorded_diagonal(g, offset, d1, d2, Where{})}; });
}

Tensor recorded_diagonal(const Tensor& x, int64_t offset, int d1, int d2, Where where) {
  Op op("diagonal", where, {x});
  return op.record(diagonal_of(x, offset, d1, d2), [from = x.shape(), offset, d1, d2](const Tensor& g) {
    return Grads{place_diagonal(g, from, offset, d1, d2)};
  });
}

/// A view of the elements of `x` in another shape.
Tensor reshaped_view(const Tensor& x, const Shape& shape, const Strides& strides, Where where) {
  Op op("reshape", where, {x});
  return op.record(detail::as_strided(x, shape, strides, 0),
                   [from = x.shape()](const Tensor& g) { return Grads{g.reshape(from)}; });
}

Tensor dense_copy(const Tensor& x, DType dtype) {
  Tensor copy = Tensor::empty(x.shape(), dtype, x.device());
  backend(copy).copy(detail::view(copy), detail::view(x));
  return copy;
}

}  // namespace

Tensor Tensor::reshape(Shape shape, Where where) const {
  const Call call("reshape", where);
  shape = complete_shape(std::move(shape), this->shape());
  if (shape == this->shape()) return *this;
  const std::optional<Strides> strides = view_strides(this->shape(), this->strides(), shape);
  if (!strides) return contiguous().reshape(shape);
  return reshaped_view(*this, shape, *strides, where);
}

Tensor Tensor::view(Shape shape, Where where) const {
  const Call call("view", where);
  shape = complete_shape(std::move(shape), this->shape());
  const std::optional<Strides> strides = view_strides(this->shape(), this->strides(), shape);
  if (!strides) {
    throw ShapeError(
        fmt::format("shape {} does not fit a tensor of shape {} and strides {} without a copy; use "
                    "reshape({}), which makes one",
                    to_string(shape), to_string(this->shape()), to_string(this->strides()), to_string(shape)));
  }
  return reshaped_view(*this, shape, *strides, where);
}

Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim, Where where) const {
  const Call call("flatten", where);
  if (rank() == 0) return reshape({1});
  const int first = normalise_dim(start_dim, rank());
  const int last = normalise_dim(end_dim, rank());
  if (first > last) throw ShapeError(fmt::format("start_dim {} is after end_dim {}", start_dim, end_dim));
  Shape flat(shape().begin(), shape().begin() + first);
  flat.push_back(Shape(shape().begin() + first, shape().begin() + last + 1).numel());
  for (int d = last + 1; d < rank(); ++d) flat.push_back(shape()[d]);
  return reshape(flat);
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1, Where where) const {
  const Call call("transpose", where);
  Shape order = Shape::filled(rank(), 0);
  for (int d = 0; d < rank(); ++d) order[d] = d;
  std::swap(order[normalise_dim(dim0, rank())], order[normalise_dim(dim1, rank())]);
  return permute(order);
}

Tensor Tensor::permute(const Shape& dims, Where where) const {
  Op op("permute", where, {*this});
  if (dims.rank() != rank()) {
    throw ShapeError(fmt::format("dims {} name {} dims of a tensor of shape {}; name each of its {} once",
                                 to_string(dims), dims.rank(), to_string(shape()), rank()));
  }
  Shape sizes = shape();
  Strides strides = this->strides();
  Shape inverse = Shape::filled(rank(), -1);
  for (int d = 0; d < rank(); ++d) {
    const int from = normalise_dim(dims[d], rank());
    if (inverse[from] != -1) throw ShapeError(fmt::format("dims {} name dim {} twice", to_string(dims), from));
    inverse[from] = d;
    sizes[d] = shape()[from];
    strides[d] = this->strides()[from];
  }
  return op.record(detail::as_strided(*this, sizes, strides, 0),
                   [inverse](const Tensor& g) { return Grads{g.permute(inverse)}; });
}

Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length, Where where) const {
  Op op("narrow", where, {*this});
  const int d = normalise_dim(dim, rank());
  const int64_t size = shape()[d];
  const int64_t first = start < 0 ? start + size : start;
  if (first < 0 || length < 0 || first > size || length > size - first) {
    throw IndexError(fmt::format("start {} and length {} leave dim {} of {}, which has size {}", start, length, dim,
                                 to_string(shape()), size));
  }
  return take_slice(op, *this, d, first, length, 1);
}

Tensor Tensor::slice(int64_t dim, int64_t start, int64_t stop, int64_t step, Where where) const {
  Op op("slice", where, {*this});
  const int d = normalise_dim(dim, rank());
  if (step < 1) {
    throw ValueError(
        fmt::format("step must be at least 1, not {}{}", step, step < 0 ? "; flip() gives the reverse order" : ""));
  }
  const int64_t size = shape()[d];
  const auto clamped = [size](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t first = clamped(start), length = clamped(stop) - first;
  const int64_t count = length <= 0 ? 0 : 1 + (length - 1) / step;
  return take_slice(op, *this, d, first, count, step);
}

Tensor Tensor::select(int64_t dim, int64_t index, Where where) const {
  const Call call("select", where);
  const int d = normalise_dim(dim, rank());
  check_index(index, dim, shape());
  return narrow(d, index < 0 ? index + shape()[d] : index, 1).squeeze(d);
}

Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2, Where where) const {
  const Call call("diagonal", where);
  const int d1 = normalise_dim(dim1, rank()), d2 = normalise_dim(dim2, rank());
  if (d1 == d2) {
    throw ShapeError(
        fmt::format("dim1 {} and dim2 {} of {} are one dim; a diagonal takes two", dim1, dim2, to_string(shape())));
  }
  return recorded_diagonal(*this, offset, d1, d2, where);
}

Tensor Tensor::squeeze(int64_t dim, Where where) const {
  const Call call("squeeze", where);
  const int d = normalise_dim(dim, rank());
  if (shape()[d] != 1) {
    throw ShapeError(fmt::format("dim {} of {} has size {}; only a dim of size 1 can be removed", dim,
                                 to_string(shape()), shape()[d]));
  }
  Shape sizes = shape();
  Strides strides = this->strides();
  sizes.erase(d);
  strides.erase(d);
  Op op("squeeze", where, {*this});
  return op.record(detail::as_strided(*this, sizes, strides, 0),
                   [d](const Tensor& g) { return Grads{g.unsqueeze(d)}; });
}

Tensor Tensor::unsqueeze(int64_t dim, Where where) const {
  Op op("unsqueeze", where, {*this});
  const int d = normalise_dim(dim, rank() + 1);
  Shape sizes = shape();
  Strides strides = this->strides();
  sizes.insert(d, 1);
  strides.insert(d, d < rank() ? shape()[d] * this->strides()[d] : 1);
  return op.record(detail::as_strided(*this, sizes, strides, 0),
                   [d](const Tensor& g) { return Grads{g.squeeze(d)}; });
}

Tensor Tensor::expand(Shape shape, Where where) const {
  const Call call("expand", where);
  const int leading = shape.rank() - rank();
  if (leading < 0) {
    throw ShapeError(
        fmt::format("shape {} has fewer dims than the tensor's {}", to_string(shape), to_string(this->shape())));
  }
  Strides strides = Shape::filled(shape.rank(), 0);
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t size = d < leading ? 1 : this->shape()[d - leading];
    if (shape[d] == -1 && d >= leading) shape[d] = size;
    if (shape[d] < 0 || (size != 1 && shape[d] != size)) {
      throw ShapeError(fmt::format("a tensor of shape {} does not expand to {}: only dims of size 1 do",
                                   to_string(this->shape()), to_string(shape)));
    }
    if (d >= leading && size == shape[d]) strides[d] = this->strides()[d - leading];
  }
  checked_numel(shape);
  Op op("expand", where, {*this});
  return op.record(detail::as_strided(*this, shape, strides, 0), [](const Tensor& g) { return Grads{g}; });
}

std::vector<Tensor> Tensor::split(int64_t size, int64_t dim, Where where) const {
  const Call call("split", where);
  const int d = normalise_dim(dim, rank());
  if (size < 1) throw ValueError(fmt::format("parts must have at least size 1, not {}", size));
  std::vector<Tensor> views;
  for (int64_t start = 0; start < shape()[d] || views.empty(); start += size) {
    views.push_back(narrow(d, start, std::min(size, shape()[d] - start)));
  }
  return views;
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim, Where where) {
  const Call call("split", where);
  const int axis = normalise_dim(dim, x.rank());
  const bool is_negative = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (is_negative || total != x.shape()[axis]) {
    throw ValueError(fmt::format("sizes [{}] do not divide dim {} of x{}, which has size {}", fmt::join(sizes, ", "),
                                 axis, to_string(x.shape()), x.shape()[axis]));
  }
  std::vector<Tensor> views;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    views.push_back(x.narrow(axis, start, size));
    start += size;
  }
  return views;
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim, Where where) const {
  const Call call("chunk", where);
  if (chunks < 1) throw ValueError(fmt::format("there must be at least 1 chunk, not {}", chunks));
  const int64_t size = this->size(dim);
  if (size == 0) return std::vector<Tensor>(static_cast<size_t>(chunks), narrow(dim, 0, 0));
  return split(size / chunks + (size % chunks != 0), dim);
}

Tensor Tensor::contiguous(Where where) const {
  const Call call("contiguous", where);
  return is_contiguous() ? *this : clone();
}

Tensor Tensor::clone(Where where) const {
  Op op("clone", where, {*this});
  return op.record(dense_copy(*this, dtype()), [](const Tensor& g) { return Grads{g}; });
}

Tensor Tensor::to(DType dtype, Where where) const {
  const Call call("to", where);
  if (dtype == this->dtype()) return *this;
  Op op("to", where, {*this});
  Tensor converted = dense_copy(*this, dtype);
  if (!is_floating(dtype)) return op.non_differentiable(converted, "integers and bool have none");
  return op.record(converted, [from = this->dtype()](const Tensor& g) { return Grads{g.to(from)}; });
}

Tensor Tensor::to(Device device, Where where) const {
  const Call call("to", where);
  if (device == this->device()) return *this;
  const Tensor dense = contiguous();
  Op op("to", where, {dense});
  Tensor moved = empty(shape(), dtype(), device);
  const int64_t bytes = numel() * size_of(dtype());
  if (device == Device::cpu) {
    backend(dense).to_host(detail::view(moved).data, detail::view(dense).data, bytes);
  } else {
    Recording::check_copy();
    backend(moved).from_host(detail::view(moved).data, detail::view(dense).data, bytes);
  }
  return op.record(moved, [from = this->device()](const Tensor& g) { return Grads{g.to(from)}; });
}

}  // namespace linnet
