#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <linnet/core/random/philox.h>
#include <linnet/ops/cpu/device/tile_product.h>

/// Many blocks of a Philox stream, vectorised with a 64-bit lane for each word of each block: the same numbers as
/// `philox`. Bound by the multiplier.

namespace linnet::cpu::LINNET_ISA {

namespace philox_lanes {

constexpr int kLanes = static_cast<int>(product::kVectorBytes / sizeof(uint64_t));
using Lanes = product::VectorOf<uint64_t, kLanes>;

/// The products of the lower halves of lanes; the upper halves of the operands may hold anything. Uses the intrinsic,
/// because compilers make three instructions of a full product instead of this one.
static inline Lanes multiply_low(Lanes a, uint64_t factor) {
  const Lanes b = Lanes{} + factor;
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Lanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__)
  return reinterpret_cast<Lanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFu) * b;
#endif
}

/// a[kFrom], b[kFrom], a[kFrom + 1], b[kFrom + 1], …
template <int kFrom, int... i>
Lanes interleave(Lanes a, Lanes b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (kFrom + i / 2 + i % 2 * kLanes)...);
}

/// The keys of the ten rounds.
struct Rounds {
  uint64_t k0[10], k1[10];

  explicit Rounds(uint64_t seed) {
    uint32_t low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      k0[round] = low;
      k1[round] = high;
      low += 0x9E3779B9u;
      high += 0xBB67AE85u;
    }
  }
};

/// Blocks first … first + kLanes − 1.
static inline void make(const Rounds& keys, uint64_t stream, uint64_t first, uint32_t* words) {
  Lanes block{};
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i) block[i] = static_cast<uint64_t>(i);
  block += first;
  Lanes c0 = block, c1 = block >> 32, c2 = Lanes{} + stream, c3 = Lanes{} + (stream >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Lanes p0 = multiply_low(c0, 0xD2511F53u);
    const Lanes p1 = multiply_low(c2, 0xCD9E8D57u);
    c0 = (p1 >> 32) ^ c1 ^ keys.k0[round];
    c2 = (p0 >> 32) ^ c3 ^ keys.k1[round];
    c1 = p1;
    c3 = p0;
  }
  const Lanes low = (c0 & 0xFFFFFFFFu) | c1 << 32, high = (c2 & 0xFFFFFFFFu) | c3 << 32;
  const Lanes front = interleave<0>(low, high, std::make_integer_sequence<int, kLanes>());
  const Lanes back = interleave<kLanes / 2>(low, high, std::make_integer_sequence<int, kLanes>());
  std::memcpy(words, &front, sizeof front);
  std::memcpy(words + 2 * kLanes, &back, sizeof back);
}

}  // namespace philox_lanes

/// Blocks first … first + count − 1 of a stream, four words each. Byte b of a block is bits 8·(b mod 4) … of its word
/// b / 4 on little-endian machines; no others are supported.
static inline void philox_blocks(RandomKey key, uint64_t first, int64_t count, uint32_t* words) {
  using philox_lanes::kLanes;
  const philox_lanes::Rounds keys(key.seed);
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    philox_lanes::make(keys, key.stream, first + static_cast<uint64_t>(i), words + 4 * i);
  if (whole == count) return;
  uint32_t last[4 * kLanes];
  philox_lanes::make(keys, key.stream, first + static_cast<uint64_t>(whole), last);
  std::copy_n(last, 4 * (count - whole), words + 4 * whole);
}

}  // namespace linnet::cpu::LINNET_ISA
