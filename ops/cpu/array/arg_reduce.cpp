#include <cmath>
#include <type_traits>

#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/cpu/device/strided_index.h>

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Whether `challenger` replaces `best`. The first NaN wins.
template <class T>
bool beats(ArgReduce op, T challenger, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(challenger) || std::isnan(best)) return !std::isnan(best);
  }
  return op == ArgReduce::max ? challenger > best : challenger < best;
}

void arg_reduce(ArgReduce op, View out, View x, int dim) {
  const int64_t n = x.shape[dim], step = x.strides[dim];
  dispatch_number(x.dtype, [&]<class T>(T) {
    for_each_line<2>({out, x}, dim, n, [&](const auto& at) {
      const T* line = data<T>(x) + at[1];
      T best = line[0];
      int64_t index = 0;
      for (int64_t i = 1; i < n; ++i) {
        if (!beats(op, line[i * step], best)) continue;
        best = line[i * step];
        index = i;
      }
      data<int64_t>(out)[at[0]] = index;
    });
  });
}

}  // namespace

void fill_arg_reduce(Backend& table) { table.arg_reduce = arg_reduce; }

}  // namespace linnet::cpu::LINNET_ISA
