#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "stream.h"

namespace cub {

struct DeviceRadixSort {
  /// A stable sort by bits [begin, end) of the keys. If it gets no memory, it returns how much it needs, as CUB's
  /// does.
  template <class K, class V>
  static cudaError_t SortPairs(void* memory, size_t& bytes, const K* keys, K* sorted_keys, const V* values,
                               V* sorted_values, int64_t count, int begin, int end, cudaStream_t stream) {
    constexpr size_t kBytes = 1000;
    if (memory == nullptr) return bytes = kBytes, cudaSuccess;
    const K mask = ~K{0} >> (static_cast<int>(8 * sizeof(K)) - (end - begin)) << begin;
    linnet::emulation::submit(stream, [=] {
      std::memset(memory, 0xff, kBytes);
      std::vector<int64_t> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [=](int64_t a, int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
      std::transform(order.begin(), order.end(), sorted_keys, [=](int64_t from) { return keys[from]; });
      std::transform(order.begin(), order.end(), sorted_values, [=](int64_t from) { return values[from]; });
    });
    return cudaSuccess;
  }
};

}  // namespace cub
