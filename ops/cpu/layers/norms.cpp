#include <cmath>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/scratch.h>

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Each norm is bit-identical to the root of `sum_squares`, because it sums the same ranges in the same order.
void norms(View out, Views x) {
  const auto numel_of = [&](int64_t i) { return numel(x.data[i]); };
  int64_t ranges = 0;
  for (int64_t i = 0; i < x.count; ++i) ranges += ceil_div(numel_of(i), kGrain);
  const Scratch<double> partial(ranges);
  for_each_element_range(x.count, kGrain, numel_of, [&](ElementRange range, int64_t number) {
    dispatch_floating(x.data[range.tensor].dtype, [&]<class T>(T) {
      const T* from = data<T>(x.data[range.tensor]) + range.begin;
      partial[number] = reduce_row<SumSquares<T>>(0, from, range.end - range.begin, 1);
    });
  });
  const double* next = partial.data();
  for (int64_t i = 0; i < x.count; ++i) {
    double sum = 0;
    for (int64_t range = 0; range < ceil_div(numel_of(i), kGrain); ++range) sum += *next++;
    data<double>(out)[i] = std::sqrt(sum);
  }
}

}  // namespace

void fill_norms(Backend& table) { table.norms = norms; }

}  // namespace linnet::cpu::LINNET_ISA
