#pragma once

#include <cstdint>

#include <linnet/core/philox.h>

namespace linnet::cpu::LINNET_ISA {

/// Blocks first … first + count − 1 of a stream, 16 bytes each. The same numbers as `philox`, computed with 64-bit
/// variables: their products come out of vector registers as they go in, which is nearly twice as fast. Byte b of a
/// block is bits 8·(b mod 4) … of its word b / 4, on little-endian machines, which all of ours are.
static inline void philox_bytes(RandomKey key, int64_t first, int64_t count, uint64_t* out) {
  constexpr uint64_t kLow = 0xFFFFFFFFu;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t block = static_cast<uint64_t>(first + i);
    uint64_t c0 = block & kLow, c1 = block >> 32, c2 = key.stream & kLow, c3 = key.stream >> 32;
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * (c0 & kLow);
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * (c2 & kLow);
      c0 = (p1 >> 32) ^ c1 ^ k0;
      c2 = (p0 >> 32) ^ c3 ^ k1;
      c1 = p1 & kLow;
      c3 = p0 & kLow;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    out[2 * i] = c0 | c1 << 32;
    out[2 * i + 1] = c2 | c3 << 32;
  }
}

}  // namespace linnet::cpu::LINNET_ISA
