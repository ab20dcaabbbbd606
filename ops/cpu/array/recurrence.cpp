#include <type_traits>

#include <linnet/ops/cpu/device/strided_index.h>

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Each element of a line waits for the one before, so a long line takes the time of a multiplication and an addition
/// for each.
void linear_recurrence(View out, View a, View b, int dim, bool reverse, double initial) {
  const int64_t n = out.shape[dim];
  const int64_t out_step = out.strides[dim], a_step = a.strides[dim], b_step = b.strides[dim];
  dispatch_number(out.dtype, [&]<class T>(T) {
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
    for_each_line<3>({out, a, b}, dim, n, [&](const auto& at) {
      Acc h = static_cast<Acc>(initial);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = reverse ? n - 1 - i : i;
        h = static_cast<Acc>(data<T>(a)[at[1] + place * a_step]) * h +
            static_cast<Acc>(data<T>(b)[at[2] + place * b_step]);
        data<T>(out)[at[0] + place * out_step] = static_cast<T>(h);
      }
    });
  });
}

}  // namespace

void fill_recurrence(Backend& table) { table.linear_recurrence = linear_recurrence; }

}  // namespace linnet::cpu::LINNET_ISA
