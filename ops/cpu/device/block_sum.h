#pragma once

#include <cstdint>

namespace linnet::cpu::LINNET_ISA {

/// f(0) + … + f(n − 1): in T within ranges of kRange terms, vectorised, and in double over the ranges, so that the
/// rounding error does not grow with n. `f` must capture by value: gcc does not vectorise a loop that reads through a
/// reference.
template <class T, class F>
double block_sum(int64_t n, F f) {
  constexpr int64_t kRange = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kRange) {
    const int64_t end = begin + kRange < n ? begin + kRange : n;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; ++i) sum += f(i);
    total += static_cast<double>(sum);
  }
  return total;
}

}  // namespace linnet::cpu::LINNET_ISA
