#include <linnet/ops/detail/index_check.h>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/core/position.h>

namespace linnet::detail {
namespace {

/// x without repeated elements: of size 1 in every dim along which it was expanded.
Tensor without_repeats(Tensor x) {
  for (int d = 0; d < x.rank(); ++d) {
    if (x.strides()[d] == 0 && x.size(d) > 1) x = x.narrow(d, 0, 1);
  }
  return x;
}

}  // namespace

Tensor checked_index(const Tensor& index, const char* name, const Shape& target, const char* target_name, int dim) {
  if (!is_integer(index.dtype())) {
    throw DTypeError(fmt::format("{} is {}; indices are int64 or int32", name, name_of(index.dtype())));
  }
  const Tensor distinct = without_repeats(index);
  Recording::check_values(distinct, [=](const Tensor& on_cpu) {
    const Tensor dense = on_cpu.to(DType::int64).contiguous();
    const std::span<const int64_t> values = dense.data<int64_t>();
    const int64_t size = target[dim];
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] >= 0 && values[i] < size) continue;
      throw IndexError(fmt::format("{}{} is {}, outside [0, {}): dim {} of {}{}", name,
                                   to_string(position_of(static_cast<int64_t>(i), on_cpu.shape())), values[i], size,
                                   dim, target_name, to_string(target)));
    }
  });
  return distinct.to(DType::int64).expand(index.shape());
}

}  // namespace linnet::detail
