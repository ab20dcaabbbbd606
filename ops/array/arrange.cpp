#include <linnet/ops/array/arrange.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/indexing.h>

namespace linnet {
namespace {

/// The places of elements that are each repeated: 0, 0, 0, 1, … for repeats {3, …}. `size` is that of the dim.
Tensor repeated_places(const Tensor& repeats, int64_t size) {
  if (!is_integer(repeats.dtype())) {
    throw DTypeError(fmt::format("repeats is {}; numbers of repeats are int64 or int32", name_of(repeats.dtype())));
  }
  if (repeats.rank() > 1 || (repeats.numel() != 1 && repeats.numel() != size)) {
    throw ShapeError(fmt::format("repeats{} must be [{}], the size of the dim, or have one element",
                                 to_string(repeats.shape()), size));
  }
  const std::vector<int64_t> numbers = repeats.to_vector<int64_t>();
  const auto times = [&](int64_t i) { return numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(i)]; };
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (times(i) < 0) {
      throw ValueError(fmt::format("an element is repeated {} times; at least 0 are needed", times(i)));
    }
    count = detail::sum_of_sizes(count, times(i));
  }
  Tensor places = Tensor::empty({count}, DType::int64);
  auto place = places.mutable_data<int64_t>().begin();
  for (int64_t i = 0; i < size; ++i) place = std::fill_n(place, times(i), i);
  return places;
}

}  // namespace

Tensor flip(const Tensor& x, const Shape& dims, Where where) {
  Op op("flip", where, {x});
  Strides strides = x.strides();
  int64_t last = 0;  // the offset of the element that comes first
  Shape reversed = Shape::filled(x.rank(), 0);
  for (const int64_t listed : dims) {
    const int dim = normalise_dim(listed, x.rank());
    if (reversed[dim]++ > 0) {
      throw ShapeError(fmt::format("dims {} name dim {} of x{} twice", to_string(dims), dim, to_string(x.shape())));
    }
    last += (x.shape()[dim] - 1) * strides[dim];
    strides[dim] = -strides[dim];
  }
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() > 0) {
    const Tensor backwards = detail::as_strided(x, x.shape(), strides, last);
    backend(out).copy(detail::view(out), detail::view(backwards));
  }
  return op.record(out, [dims](const Tensor& g) { return Grads{flip(g, dims)}; });
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims, Where where) {
  const Call call("roll", where);
  if (dims.rank() == 0 && shifts.rank() == 1) return roll(x.flatten(), shifts, 0).reshape(x.shape());
  if (shifts.rank() != dims.rank() || dims.rank() == 0) {
    throw ShapeError(fmt::format("{} shifts for {} dims; one for each is needed", shifts.rank(), dims.rank()));
  }
  Tensor rolled = x;
  for (int i = 0; i < dims.rank(); ++i) {
    const int64_t size = x.size(dims[i]);
    if (size == 0) continue;
    const int64_t front = (shifts[i] % size + size) % size;  // how many elements come in at the start
    rolled = concat({rolled.narrow(dims[i], size - front, front), rolled.narrow(dims[i], 0, size - front)}, dims[i]);
  }
  return rolled;
}

Tensor repeat(const Tensor& x, const Shape& sizes, Where where) {
  const Call call("repeat", where);
  const int leading = sizes.rank() - x.rank();
  if (leading < 0) {
    throw ShapeError(
        fmt::format("{} sizes for x{}; one for each dim is needed, or use tile", sizes.rank(), to_string(x.shape())));
  }
  // A repeated dim becomes two, of which the first is expanded: [n] is [1, n], then [size, n], then [size · n].
  Shape split, expanded, merged;
  for (int d = 0; d < sizes.rank(); ++d) {
    const int64_t n = d < leading ? 1 : x.shape()[d - leading];
    if (sizes[d] < 0) throw ShapeError(fmt::format("sizes {} have a negative one", to_string(sizes)));
    merged.push_back(sizes[d] * n);
    if (sizes[d] != 1 && n != 1) {
      split.push_back(1);
      expanded.push_back(sizes[d]);
    }
    split.push_back(n);
    expanded.push_back(n == 1 ? sizes[d] : n);
  }
  return x.reshape(split).expand(expanded).clone().reshape(merged);
}

Tensor tile(const Tensor& x, const Shape& sizes, Where where) {
  const Call call("tile", where);
  Shape all = sizes;
  while (all.rank() < x.rank()) all.insert(0, 1);
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim, Where where) {
  const Call call("repeat_interleave", where);
  if (repeats < 0) throw ValueError(fmt::format("an element is repeated {} times; at least 0 are needed", repeats));
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  const int axis = normalise_dim(*dim, x.rank());
  Shape expanded = x.shape();
  expanded.insert(axis + 1, repeats);
  const Tensor repeated = x.unsqueeze(axis + 1).expand(expanded).clone();
  Shape merged = x.shape();
  merged[axis] *= repeats;
  return repeated.reshape(merged);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim, Where where) {
  const Call call("repeat_interleave", where);
  if (!dim) return repeat_interleave(x.flatten(), repeats, 0);
  const int axis = normalise_dim(*dim, x.rank());
  const Tensor places = repeated_places(repeats, x.shape()[axis]).to(x.device());
  return detail::select_slices(x, axis, places);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing, Where where) {
  const Call call("meshgrid", where);
  if (tensors.empty()) throw ValueError("no tensors were given; at least one is needed");
  if (indexing != "ij" && indexing != "xy") {
    throw ValueError(fmt::format("indexing is \"{}\"; it is \"ij\" or \"xy\"", indexing));
  }
  const int rank = static_cast<int>(tensors.size());
  const auto dim_of = [&](int i) { return indexing == "xy" && rank > 1 && i < 2 ? 1 - i : i; };
  Shape shape = Shape::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const Tensor& x = tensors[static_cast<size_t>(i)];
    if (x.rank() > 1) {
      throw ShapeError(fmt::format("tensor {} is {}; rank 1 or 0 is needed", i, to_string(x.shape())));
    }
    shape[dim_of(i)] = x.numel();
  }
  std::vector<Tensor> grids;
  for (int i = 0; i < rank; ++i) {
    Shape line = Shape::filled(rank, 1);
    line[dim_of(i)] = shape[dim_of(i)];
    grids.push_back(tensors[static_cast<size_t>(i)].reshape(line).expand(shape));
  }
  return grids;
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim, Where where) {
  const Call call("unbind", where);
  std::vector<Tensor> views;
  views.reserve(static_cast<size_t>(x.size(dim)));
  for (int64_t i = 0; i < x.size(dim); ++i) views.push_back(x.select(dim, i));
  return views;
}

Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination, Where where) {
  const Call call("movedim", where);
  if (source.rank() != destination.rank()) {
    throw ShapeError(fmt::format("source {} and destination {} differ in length; each dim goes to one place",
                                 to_string(source), to_string(destination)));
  }
  const int rank = x.rank();
  Shape order = Shape::filled(rank, -1), is_moved = Shape::filled(rank, 0);  // dim d is dim order[d] of x
  for (int i = 0; i < source.rank(); ++i) {
    const int from = normalise_dim(source[i], rank), to = normalise_dim(destination[i], rank);
    if (is_moved[from] || order[to] != -1) {
      throw ShapeError(fmt::format("source {} or destination {} names a dim of x{} twice", to_string(source),
                                   to_string(destination), to_string(x.shape())));
    }
    is_moved[from] = 1;
    order[to] = from;
  }
  int next = 0;
  for (int64_t& dim : order) {
    if (dim != -1) continue;
    while (is_moved[next]) ++next;
    dim = next++;
  }
  return x.permute(order);
}

Tensor expand_as(const Tensor& x, const Tensor& other, Where where) {
  const Call call("expand_as", where);
  return x.expand(other.shape());
}

Tensor reshape_as(const Tensor& x, const Tensor& other, Where where) {
  const Call call("reshape_as", where);
  return x.reshape(other.shape());
}

Tensor view_as(const Tensor& x, const Tensor& other, Where where) {
  const Call call("view_as", where);
  return x.view(other.shape());
}

}  // namespace linnet
