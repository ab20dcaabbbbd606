#include <linnet/ops/array/selection.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/position.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/index_check.h>
#include <linnet/ops/detail/indexing.h>

namespace linnet {
namespace {

/// The numbers, in row-major order, of the elements of a mask that are true.
std::vector<int64_t> numbers_of_true(const Tensor& mask) {
  const Tensor host = mask.to(Device::cpu).contiguous();
  const std::span<const bool> elements = host.data<bool>();
  std::vector<int64_t> numbers;
  numbers.reserve(static_cast<size_t>(std::ranges::count(elements, true)));
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i]) numbers.push_back(static_cast<int64_t>(i));
  }
  return numbers;
}

/// The same as a tensor on the mask's device.
Tensor places_of_true(const Tensor& mask) { return tensor(numbers_of_true(mask)).to(mask.device()); }

}  // namespace

Tensor nonzero(const Tensor& x, Where where) {
  const Call call("nonzero", where);
  const std::vector<int64_t> numbers = numbers_of_true(ne(x, 0));
  const Shape& shape = x.shape();
  Tensor out = Tensor::empty({static_cast<int64_t>(numbers.size()), x.rank()}, DType::int64);
  auto index = out.mutable_data<int64_t>().begin();
  for (const int64_t number : numbers) index = std::ranges::copy(detail::position_of(number, shape), index).out;
  return out.to(x.device());
}

Tensor masked_select(const Tensor& x, const Tensor& mask, Where where) {
  const Call call("masked_select", where);
  if (mask.dtype() != DType::boolean) {
    throw DTypeError(
        fmt::format("mask is {}, not bool; ne(mask, 0) is true where mask is not 0", name_of(mask.dtype())));
  }
  const Shape shape = broadcast_shapes(x.shape(), mask.shape());
  return detail::select_slices(x.expand(shape).reshape(shape.numel()), 0, places_of_true(mask.expand(shape)));
}

UniqueElements unique(const Tensor& x, Where where) {
  const Call call("unique", where);
  const Tensor flat = x.reshape(x.numel());
  const auto [sorted, order] = sort(flat.detach());
  // An element that differs from the one before it begins the next group of equal ones.
  const int64_t rest = std::max<int64_t>(x.numel() - 1, 0);
  const Tensor first = ones({std::min<int64_t>(x.numel(), 1)}, DType::boolean, x.device());
  const Tensor begins = concat({first, ne(sorted.narrow(0, x.numel() - rest, rest), sorted.narrow(0, 0, rest))});
  const Tensor starts = places_of_true(begins), end = full({1}, x.numel(), DType::int64, x.device());
  const Tensor group = sub(cumsum(begins, 0), 1);
  const Tensor groups = detail::scatter_add_elements(zeros_like(group), 0, order, group);
  return {.values = detail::select_slices(flat, 0, detail::select_slices(order, 0, starts)),
          .inverse_indices = groups.reshape(x.shape()),
          .counts = diff(starts, 1, 0, {}, end)};
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength, Where where) {
  const Call call("bincount", where);
  if (x.rank() != 1) throw ShapeError(fmt::format("x{} has rank {}; flatten() it", to_string(x.shape()), x.rank()));
  if (minlength < 0) throw ValueError(fmt::format("minlength is {}; it must not be negative", minlength));
  if (weights.defined()) detail::check_same_shape(weights, "weights", x, "x");
  if (!is_integer(x.dtype())) {
    throw DTypeError(fmt::format("x is {}; it must be int64 or int32", name_of(x.dtype())));
  }
  const int64_t largest = x.numel() == 0 ? -1 : max(x).item<int64_t>();
  // No memory has so many counts, so the bound of `largest` changes nothing but the error.
  const int64_t size = std::max(std::min(largest, INT64_MAX - 1) + 1, minlength);
  const Tensor each = weights.defined() ? weights : ones(x.shape(), DType::int64, x.device());
  const Tensor counts = zeros({size}, each.dtype(), x.device());
  return detail::scatter_add_elements(counts, 0, detail::checked_index(x, "x", {size}, "counts", 0), each);
}

}  // namespace linnet
