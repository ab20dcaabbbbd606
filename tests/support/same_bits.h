#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/tensor.h>

#include "tests/support/threads.h"

namespace linnet::test {

/// Whether both have the same shape, floating dtype and bits.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  const auto equal = [](const auto& x, const auto& y) {
    return std::ranges::equal(std::as_bytes(std::span(x)), std::as_bytes(std::span(y)));
  };
  return a.dtype() == DType::float32 ? equal(a.to_vector<float>(), b.to_vector<float>())
                                     : equal(a.to_vector<double>(), b.to_vector<double>());
}

inline void check_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

/// Checks that `run` returns tensors with the same bits for any number of threads.
template <class Run>
void check_threads_change_no_bit(const Run& run) {
  const auto with = [&](int threads) {
    const WithThreads set(threads);
    return run();
  };
  const std::vector<Tensor> expected = with(1);
  for (const int threads : {2, 3, 4}) {
    CAPTURE(threads);
    check_same_bits(with(threads), expected);
  }
}

}  // namespace linnet::test
