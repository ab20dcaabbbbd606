#include <type_traits>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/strided_index.h>

namespace linnet::cpu::LINNET_ISA {
namespace {

void cumsum(View out, View x, int dim, bool reverse) {
  const int64_t n = x.shape[dim], out_step = out.strides[dim], x_step = x.strides[dim];
  dispatch_any(x.dtype, [&]<class T>(T) {
    using Y = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    for_each_line<2>({out, x}, dim, n, [&](const auto& at) {
      typename Sum<T>::Acc total = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = reverse ? n - 1 - i : i;
        total += Sum<T>::load(data<T>(x)[at[1] + place * x_step]);
        data<Y>(out)[at[0] + place * out_step] = static_cast<Y>(total);
      }
    });
  });
}

}  // namespace

void fill_cumsum(Backend& table) { table.cumsum = cumsum; }

}  // namespace linnet::cpu::LINNET_ISA
