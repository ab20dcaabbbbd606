#include <linnet/ops/array/indexing.h>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/detail/index_check.h>
#include <linnet/ops/detail/indexing.h>

namespace linnet {
namespace {

using detail::checked_index;
using detail::gather_elements;
using detail::scatter_add_elements;
using detail::select_slices;

// The primitives, in pairs that are each other's backward. Their indices have been checked.

/// A tensor of zeros with size `size` along `dim`, to which the slices of src are added at `index`.
Tensor add_slices(const Tensor& src, int dim, const Tensor& index, int64_t size) {
  Op op("index_add", {}, {src, index});
  Shape shape = src.shape();
  shape[dim] = size;
  Tensor out = zeros(shape, src.dtype(), src.device());
  backend(out).index_add(detail::view(out), detail::view(index), detail::view(src), dim);
  return op.record(
      out, [dim, index = op.save(index)](const Tensor& g) { return Grads{select_slices(g, dim, index()), {}}; });
}

}  // namespace

Tensor detail::select_slices(const Tensor& x, int dim, const Tensor& index) {
  Op op("index_select", {}, {x, index});
  Shape shape = x.shape();
  shape[dim] = index.numel();
  Tensor out = Tensor::empty(shape, x.dtype(), x.device());
  backend(out).index_select(detail::view(out), detail::view(x), detail::view(index), dim);
  return op.record(out, [dim, index = op.save(index), size = x.shape()[dim]](const Tensor& g) {
    return Grads{add_slices(g.to(computed_in(g.dtype())), dim, index(), size).to(g.dtype()), {}};
  });
}

Tensor detail::gather_elements(const Tensor& x, int dim, const Tensor& index) {
  Op op("gather", {}, {x, index});
  Tensor out = Tensor::empty(index.shape(), x.dtype(), x.device());
  backend(out).gather(detail::view(out), detail::view(x), detail::view(index), dim);
  return op.record(out, [dim, index = op.save(index), shape = x.shape()](const Tensor& g) {
    const Tensor src = g.to(computed_in(g.dtype()));
    return Grads{scatter_add_elements(zeros(shape, src.dtype(), g.device()), dim, index(), src).to(g.dtype()), {}};
  });
}

Tensor detail::scatter_add_elements(const Tensor& x, int dim, const Tensor& index, const Tensor& src) {
  Op op("scatter_add", {}, {x, index, src});
  Tensor out = x.detach().clone();
  backend(out).scatter_add(detail::view(out), detail::view(index), detail::view(src), dim);
  return op.record(out, [dim, index = op.save(index), src_needs_grad = op.needs_grad(2)](const Tensor& g) {
    return Grads{g, {}, src_needs_grad ? gather_elements(g, dim, index()) : Tensor()};
  });
}

namespace {

/// Checks that `index` has the other tensor's rank, and is no larger but in `free_dim`.
void check_fits(const Tensor& index, const Tensor& other, const char* name, int free_dim) {
  if (index.rank() != other.rank()) {
    throw ShapeError(fmt::format("index{} and {}{} differ in rank ({} ≠ {})", to_string(index.shape()), name,
                                 to_string(other.shape()), index.rank(), other.rank()));
  }
  for (int d = 0; d < index.rank(); ++d) {
    if (d == free_dim || index.shape()[d] <= other.shape()[d]) continue;
    throw ShapeError(fmt::format("index{} is larger than {}{} in dim {} ({} > {})", to_string(index.shape()), name,
                                 to_string(other.shape()), d, index.shape()[d], other.shape()[d]));
  }
}

/// A mask of the last two dims of x: true where column − row > diagonal, or < diagonal for `below`.
Tensor off_diagonal(const Tensor& x, int64_t diagonal, bool below) {
  if (x.rank() < 2) {
    throw ShapeError(fmt::format("x{} has rank {}; at least 2 is needed", to_string(x.shape()), x.rank()));
  }
  const Tensor rows = arange(x.size(-2)).unsqueeze(1);
  const Tensor offset = Recording::constant(sub(arange(x.size(-1)), rows), x.device());
  return below ? lt(offset, diagonal) : gt(offset, diagonal);
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& ids, Where where) {
  Call call("embedding", where);
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("weight{} has rank {}; [V, D] is needed", to_string(weight.shape()), weight.rank()));
  }
  Shape shape = ids.shape();
  shape.push_back(weight.size(1));
  const Tensor rows = checked_index(ids, "ids", weight.shape(), "weight", 0);
  return select_slices(weight, 0, rows.reshape({rows.numel()})).reshape(shape);
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where) {
  Call call("index_select", where);
  const int axis = normalise_dim(dim, x.rank());
  if (index.rank() != 1) {
    throw ShapeError(fmt::format("index{} has rank {}; 1 is needed, flatten it or use gather",
                                 to_string(index.shape()), index.rank()));
  }
  return select_slices(x, axis, checked_index(index, "index", x.shape(), "x", axis));
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where) {
  Call call("gather", where);
  const int axis = normalise_dim(dim, x.rank());
  check_fits(index, x, "x", axis);
  return gather_elements(x, axis, checked_index(index, "index", x.shape(), "x", axis));
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  Call call("scatter_add", where);
  const int axis = normalise_dim(dim, x.rank());
  if (x.dtype() != src.dtype()) {
    throw DTypeError(
        fmt::format("x is {} and src {}; convert one with to(DType)", name_of(x.dtype()), name_of(src.dtype())));
  }
  check_fits(index, x, "x", axis);
  check_fits(index, src, "src", -1);
  Tensor added = src;
  for (int d = 0; d < src.rank(); ++d) added = added.narrow(d, 0, index.shape()[d]);
  return scatter_add_elements(x, axis, checked_index(index, "index", x.shape(), "x", axis), added);
}

Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype, Where where) {
  Call call("one_hot", where);
  if (classes < 1) throw ValueError(fmt::format("classes is {}; at least 1 is needed", classes));
  const Tensor checked = checked_index(ids, "ids", {classes}, "classes", 0);
  return eq(checked.unsqueeze(-1), Recording::constant(arange(classes), ids.device())).to(dtype);
}

Tensor tril(const Tensor& x, int64_t diagonal, Where where) {
  Call call("tril", where);
  return masked_fill(x, off_diagonal(x, diagonal, false), 0);
}

Tensor triu(const Tensor& x, int64_t diagonal, Where where) {
  Call call("triu", where);
  return masked_fill(x, off_diagonal(x, diagonal, true), 0);
}

}  // namespace linnet
