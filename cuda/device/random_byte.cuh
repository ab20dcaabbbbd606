#pragma once

#include <linnet/core/random/philox.h>

namespace linnet::cuda {

/// Byte `index` of a Philox stream. Not inlined, so that in kernels that seldom call it Philox does not take
/// registers.
__noinline__ __device__ static int random_byte(RandomKey key, int64_t index) {
  return static_cast<int>(random_word(key, static_cast<uint64_t>(index / 4)) >> (index % 4 * 8) & 255);
}

}  // namespace linnet::cuda
