#include <linnet/ops/array/creation.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/elementwise.h>

namespace linnet {

Tensor full(const Shape& shape, Scalar value, DType dtype, Device device, Where where) {
  const Call call("full", where);
  detail::check_number(value, dtype);
  Tensor out = Tensor::empty(shape, dtype, device);
  backend(out).fill(detail::view(out), value);
  return out;
}

Tensor zeros(const Shape& shape, DType dtype, Device device, Where where) {
  const Call call("zeros", where);
  return full(shape, 0, dtype, device);
}

Tensor ones(const Shape& shape, DType dtype, Device device, Where where) {
  const Call call("ones", where);
  return full(shape, 1, dtype, device);
}

Tensor full_like(const Tensor& x, Scalar value, Where where) {
  const Call call("full_like", where);
  return full(x.shape(), value, x.dtype(), x.device());
}

Tensor zeros_like(const Tensor& x, Where where) {
  const Call call("zeros_like", where);
  return full_like(x, 0);
}

Tensor ones_like(const Tensor& x, Where where) {
  const Call call("ones_like", where);
  return full_like(x, 1);
}

Tensor scalar(Scalar value, DType dtype, Where where) {
  const Call call("scalar", where);
  return full({}, value, dtype);
}

namespace {

/// Throws DTypeError unless `dtype` holds every number of an arange. It is enough to check the first two, which
/// contain the step, and the last.
template <class T>
void check_numbers(std::span<const T> values, DType dtype) {
  for (const size_t i : {size_t{0}, size_t{1}, values.size() - 1}) {
    if (i < values.size()) detail::check_number(values[i], dtype);
  }
}

/// The number of integers start, start + step, … before stop. The distance of stop from start may exceed an int64.
int64_t count_of_integers(int64_t start, int64_t stop, int64_t step) {
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  if (step < 0 ? start <= stop : stop <= start) return 0;
  const uint64_t length = step < 0 ? distance(stop, start) : distance(start, stop);
  const uint64_t count = 1 + (length - 1) / (step < 0 ? distance(step, 0) : distance(0, step));
  return static_cast<int64_t>(std::min(count, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, std::optional<DType> dtype, Where where) {
  const Call call("arange", where);
  if (!std::isfinite(start.real) || !std::isfinite(stop.real) || !std::isfinite(step.real)) {
    throw ValueError(
        fmt::format("start, stop and step must be finite; they are {}, {} and {}", start.real, stop.real, step.real));
  }
  if (step.real == 0) throw ValueError("step is 0; it must lead from start to stop");
  if ((stop.real - start.real) / step.real < 0) {
    throw ValueError(
        fmt::format("step {} leads away from stop: start is {}, stop {}", step.real, start.real, stop.real));
  }
  const bool integers = start.is_integer && stop.is_integer && step.is_integer;
  const DType result = dtype.value_or(integers ? DType::int64 : DType::float32);
  if (integers) {
    const int64_t count = count_of_integers(start.integer, stop.integer, step.integer);
    Tensor out = Tensor::empty({count}, DType::int64);
    const std::span<int64_t> values = out.mutable_data<int64_t>();
    for (int64_t i = 0; i < count; ++i) {  // unsigned, because i·step may exceed an int64 where the sum does not
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(start.integer) +
                                       static_cast<uint64_t>(i) * static_cast<uint64_t>(step.integer));
    }
    check_numbers<int64_t>(values, result);
    return out.to(result);
  }
  const int64_t count = static_cast<int64_t>(std::min(std::ceil((stop.real - start.real) / step.real), 0x1p62));
  Tensor out = Tensor::empty({count}, DType::float64);
  const std::span<double> values = out.mutable_data<double>();
  for (int64_t i = 0; i < count; ++i) values[i] = start.real + static_cast<double>(i) * step.real;
  check_numbers<double>(values, result);
  return out.to(result);
}

Tensor arange(Scalar stop, std::optional<DType> dtype, Where where) { return arange(0, stop, 1, dtype, where); }

Tensor linspace(double start, double stop, int64_t steps, DType dtype, Where where) {
  const Call call("linspace", where);
  if (steps < 0) throw ValueError(fmt::format("steps must not be negative, not {}", steps));
  Tensor out = Tensor::empty({steps}, DType::float64);
  const std::span<double> values = out.mutable_data<double>();
  // Each half is computed from its own end, so that both ends are exact.
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0;
  for (int64_t i = 0; i < steps; ++i) {
    values[i] =
        2 * i < steps ? start + static_cast<double>(i) * step : stop - static_cast<double>(steps - 1 - i) * step;
  }
  return out.to(dtype);
}

Tensor eye(int64_t n, int64_t m, DType dtype, Where where) {
  const Call call("eye", where);
  if (m == -1) m = n;
  Tensor out = zeros({n, m}, dtype);
  detail::as_strided(out, {std::min(n, m)}, {m + 1}, 0).fill_(1);
  return out;
}

Tensor tensor(std::initializer_list<double> values, const Shape& shape, DType dtype, Where where) {
  const Call call("tensor", where);
  for (const double value : values) detail::check_number(value, dtype);
  return tensor(std::vector<double>(values), shape).to(dtype);
}

Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype, Where where) {
  const Call call("tensor", where);
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<double> values;
  for (const std::initializer_list<double>& row : rows) {
    if (row.size() != columns) {
      throw ShapeError(fmt::format("rows differ: the first has {} numbers, and another {}", columns, row.size()));
    }
    for (const double value : row) detail::check_number(value, dtype);
    values.insert(values.end(), row.begin(), row.end());
  }
  return tensor(values, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)}).to(dtype);
}

Tensor tensor(std::initializer_list<double> values, DType dtype, Where where) {
  return tensor(values, {-1}, dtype, where);
}

Tensor detail::from_memory(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive,
                           Where where) {
  const Call call("from_memory", where);
  return borrow(data, shape, dtype, std::move(keep_alive));
}

}  // namespace linnet
