#include <cmath>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/scratch.h>

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Each to the bits of the root of its sum of squares: from the same parts, in the same order.
void norms(View out, Views x) {
  const auto numel_of = [&](int64_t i) { return numel(x.data[i]); };
  int64_t parts = 0;
  for (int64_t i = 0; i < x.count; ++i) parts += ceil_div(numel_of(i), kGrain);
  const Scratch<double> partial(parts);
  for_each_element_range(x.count, kGrain, numel_of, [&](ElementRange part, int64_t number) {
    dispatch_floating(x.data[part.tensor].dtype, [&]<class T>(T) {
      const T* from = data<T>(x.data[part.tensor]) + part.begin;
      partial[number] = reduce_row<SumSquares<T>>(0, from, part.end - part.begin, 1);
    });
  });
  const double* next = partial.data();
  for (int64_t i = 0; i < x.count; ++i) {
    double sum = 0;
    for (int64_t part = 0; part < ceil_div(numel_of(i), kGrain); ++part) sum += *next++;
    data<double>(out)[i] = std::sqrt(sum);
  }
}

}  // namespace

void fill_norms(Backend& table) { table.norms = norms; }

}  // namespace linnet::cpu::LINNET_ISA
