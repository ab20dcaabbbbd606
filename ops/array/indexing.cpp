#include <linnet/ops/array/indexing.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/detail/elementwise.h>
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

/// x with src written at the indices. Where indices are equal, the last one counts.
Tensor write_elements(const Tensor& x, int dim, const Tensor& index, const Tensor& src) {
  Op op("scatter", {}, {x, index, src});
  Tensor out = x.detach().clone();
  backend(out).scatter(detail::view(out), detail::view(index), detail::view(src), dim);
  return op.record(out, [dim, index = op.save(index), src_needs_grad = op.needs_grad(2)](const Tensor& g) {
    const auto spread = [&](const Tensor& one) { return one.expand(index.shape()); };
    Tensor src_gradient;
    if (src_needs_grad) {
      // An element of src counts if its place along `dim` is the last one that was written where it went.
      Shape along = Shape::filled(index.shape().rank(), 1);
      along[dim] = index.shape()[dim];
      const Tensor place = spread(Recording::constant(arange(along[dim]).reshape(along), g.device()));
      const Tensor last = write_elements(zeros(g.shape(), DType::int64, g.device()), dim, index(), place);
      const Tensor counts = eq(gather_elements(last, dim, index()), place);
      src_gradient = linnet::where(counts, gather_elements(g, dim, index()), 0);
    }
    const Tensor nothing = full({}, 0, g.dtype(), g.device());
    return Grads{write_elements(g, dim, index(), spread(nothing)), {}, src_gradient};
  });
}

/// Checks that `index` has the other tensor's rank, and is no larger except in `free_dim`.
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

/// The part of src that `index` writes: src may be larger.
Tensor part_at(const Tensor& index, const Tensor& src) {
  check_fits(index, src, "src", -1);
  Tensor part = src;
  for (int d = 0; d < src.rank(); ++d) part = part.narrow(d, 0, index.shape()[d]);
  return part;
}

void check_same_dtype(const Tensor& x, const Tensor& other, const char* name) {
  if (x.dtype() == other.dtype()) return;
  throw DTypeError(
      fmt::format("x is {} and {} {}; convert one with to(DType)", name_of(x.dtype()), name, name_of(other.dtype())));
}

/// The indices, one for each of x's first dims; a mask is replaced by the indices of its true elements.
std::vector<Tensor> without_masks(const Tensor& x, const std::vector<Tensor>& indices) {
  std::vector<Tensor> all;
  for (const Tensor& index : indices) {
    const int first = static_cast<int>(all.size()), dims = index.dtype() == DType::boolean ? index.rank() : 1;
    if (dims == 0) throw ShapeError("a mask of rank 0 stands for no dim; use where(mask, values, x)");
    if (first + dims > x.rank()) {
      throw ShapeError(
          fmt::format("the indices are for {} dims; x{} has {}", first + dims, to_string(x.shape()), x.rank()));
    }
    if (index.dtype() != DType::boolean) {
      all.push_back(index);
      continue;
    }
    const Shape masked(x.shape().begin() + first, x.shape().begin() + first + dims);
    if (!(index.shape() == masked)) {
      throw ShapeError(fmt::format("a mask{} stands for dims of shape {} of x{}", to_string(index.shape()),
                                   to_string(masked), to_string(x.shape())));
    }
    const Tensor places = nonzero(index);
    for (int d = 0; d < dims; ++d) all.push_back(places.select(1, d));
  }
  return all;
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

/// x as a matrix, in which indices for the first dims of x name rows.
struct IndexedTable {
  Tensor rows;   ///< x with its first dims as one dim, and the others as one too
  Tensor index;  ///< the row of each place
  Shape shape;   ///< of the elements at these places: that of `index`, followed by the other dims of x
};

IndexedTable indexed_table(const Tensor& x, const std::vector<Tensor>& indices) {
  const std::vector<Tensor> all = without_masks(x, indices);
  if (all.empty()) throw ValueError("no indices were given; at least one is needed");
  int64_t rows = 1;
  Tensor row = zeros({}, DType::int64, x.device());
  for (size_t i = 0; i < all.size(); ++i) {
    const int dim = static_cast<int>(i);
    const int64_t size = x.shape()[dim];
    row = add(mul(row, size), checked_index(all[i], "index", x.shape(), "x", dim));
    rows *= size;
  }
  const Shape rest(x.shape().begin() + static_cast<int>(all.size()), x.shape().end());
  Shape shape = row.shape();
  for (const int64_t size : rest) shape.push_back(size);
  return {x.reshape({rows, rest.numel()}), row, shape};
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
  check_same_dtype(x, src, "src");
  check_fits(index, x, "x", axis);
  const Tensor added = part_at(index, src);
  return scatter_add_elements(x, axis, checked_index(index, "index", x.shape(), "x", axis), added);
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  const Call call("scatter", where);
  const int axis = normalise_dim(dim, x.rank());
  check_same_dtype(x, src, "src");
  check_fits(index, x, "x", axis);
  const Tensor written = part_at(index, src);
  return write_elements(x, axis, checked_index(index, "index", x.shape(), "x", axis), written);
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value, Where where) {
  const Call call("scatter", where);
  return scatter(x, dim, index, detail::number_beside(x, value).expand(index.shape()));
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim, Where where) {
  const Call call("take_along_dim", where);
  if (!dim) return gather(x.flatten(), 0, indices.flatten());
  const int axis = normalise_dim(*dim, x.rank());
  if (indices.rank() != x.rank()) {
    throw ShapeError(fmt::format("indices{} and x{} differ in rank ({} ≠ {}); without dim both are flattened",
                                 to_string(indices.shape()), to_string(x.shape()), indices.rank(), x.rank()));
  }
  Shape of_x = x.shape(), of_indices = indices.shape();
  of_x[axis] = of_indices[axis] = 1;
  Shape from = broadcast_shapes(of_x, of_indices), to = from;
  from[axis] = x.shape()[axis];
  to[axis] = indices.shape()[axis];
  return gather(x.expand(from), axis, indices.expand(to));
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices, Where where) {
  const Call call("index", where);
  const IndexedTable table = indexed_table(x, indices);
  return select_slices(table.rows, 0, table.index.reshape({table.index.numel()})).reshape(table.shape);
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha, Where where) {
  const Call call("index_add", where);
  const int axis = normalise_dim(dim, x.rank());
  check_same_dtype(x, source, "source");
  Shape slices = x.shape();
  if (index.rank() == 1) slices[axis] = index.numel();
  if (index.rank() != 1 || source.shape() != slices) {
    throw ShapeError(
        fmt::format("index{} must have rank 1, and source{} must have the shape of x{} with as many "
                    "slices along dim {} as index has elements",
                    to_string(index.shape()), to_string(source.shape()), to_string(x.shape()), axis));
  }
  Shape column = Shape::filled(x.rank(), 1);
  column[axis] = index.numel();
  const Tensor at = checked_index(index, "index", x.shape(), "x", axis).reshape(column).expand(slices);
  return scatter_add_elements(x, axis, at, mul(source, alpha));
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate,
                 Where where) {
  const Call call("index_put", where);
  check_same_dtype(x, values, "values");
  const auto [table, row, shape] = indexed_table(x, indices);
  const Tensor src = values.expand(shape).reshape({row.numel(), table.size(1)});
  const Tensor index = row.reshape({row.numel(), 1}).expand(src.shape());
  const Tensor out = accumulate ? scatter_add_elements(table, 0, index, src) : write_elements(table, 0, index, src);
  return out.reshape(x.shape());
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

Tensor diag(const Tensor& x, int64_t diagonal, Where where) {
  const Call call("diag", where);
  if (x.rank() == 2) return x.diagonal(diagonal).clone();
  if (x.rank() != 1) {
    throw ShapeError(
        fmt::format("x{} has rank {}; 1 or 2 is needed, or use x.diagonal()", to_string(x.shape()), x.rank()));
  }
  const Tensor square = triu(tril(x.expand({x.numel(), x.numel()})));
  const int64_t right = std::max<int64_t>(diagonal, 0), down = std::max<int64_t>(-std::max(diagonal, -INT64_MAX), 0);
  return pad(square, {right, down, down, right});
}

Tensor trace(const Tensor& x, Where where) {
  const Call call("trace", where);
  if (x.rank() != 2) {
    throw ShapeError(
        fmt::format("x{} has rank {}; 2 is needed, or use x.diagonal()", to_string(x.shape()), x.rank()));
  }
  return sum(x.diagonal());
}

}  // namespace linnet
