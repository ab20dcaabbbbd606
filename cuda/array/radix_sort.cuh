#pragma once

#include <cstdint>

#include <linnet/cuda/device/scratch.cuh>

namespace linnet::cuda {

/// Keys and values for `sort_pairs`. They take 32 bytes of scratch memory for each pair.
struct Pairs {
  explicit Pairs(int64_t count_)
      : count(count_), keys(count), values(count), sorted_keys(count), sorted_values(count) {}

  int64_t count;
  Scratch<uint64_t> keys;
  Scratch<int64_t> values;
  Scratch<uint64_t> sorted_keys;
  Scratch<int64_t> sorted_values;
};

/// Sorts pairs by the lowest `bits` bits of the keys; higher bits must be 0. Stable, and so deterministic.
void sort_pairs(const Pairs& pairs, int bits);

/// The number of bits that numbers below `bound` need; at least 1.
inline int bits_below(int64_t bound) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < bound) ++bits;
  return bits;
}

}  // namespace linnet::cuda
