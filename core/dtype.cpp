#include <linnet/core/dtype.h>

#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet {

std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name_of(dtype); }
std::ostream& operator<<(std::ostream& stream, Device device) { return stream << name_of(device); }

namespace detail {

void check_number(Scalar value, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return;
  const double limit = dtype == DType::int32 ? 0x1p31 : 0x1p63;
  const bool in_range = value.real >= -limit && value.real < limit;
  // As doubles, integers near the limits of int64 round to numbers beyond them.
  if (value.is_integer ? in_range || dtype == DType::int64 : in_range && value.real == std::trunc(value.real)) return;
  throw DTypeError(
      fmt::format("the number {} does not fit {}; use another dtype, such as float32", value.real, name_of(dtype)));
}

void check_floating(DType dtype) {
  if (is_floating(dtype)) return;
  throw DTypeError(fmt::format("takes floating tensors, not {}; convert with to(DType::float32)", name_of(dtype)));
}

}  // namespace detail
}  // namespace linnet
