#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

void check_same_shape(const Tensor& x, const char* name, const Tensor& other, const char* other_name) {
  if (x.shape() == other.shape()) return;
  throw ShapeError(fmt::format("{}{} and {}{} must have one shape; reshape() or expand() one of them", name,
                               to_string(x.shape()), other_name, to_string(other.shape())));
}

int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int d = 0; d < x.rank() - 1; ++d) rows *= x.shape()[d];
  return rows;
}

Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

Tensor dense_rows(const Tensor& x) {
  const int64_t width = x.size(-1);
  return detail::as_strided(dense(x), {rows_of(x), width}, {width, 1}, 0);
}

int64_t sum_of_sizes(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  throw MemoryError(
      fmt::format("the result has a dim of {} and {} more elements, more than 64 bits can count", a, b));
}

Tensor in_computed(const Tensor& x) { return x.to(computed_in(x.dtype())); }

}  // namespace linnet::detail
