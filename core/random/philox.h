#pragma once

#include <cstdint>

namespace linnet {

/// A stream of random numbers: a generator's seed and the stream's number. Element `i` of the stream depends on
/// nothing else, neither on threads nor on the device.
struct RandomKey {
  uint64_t seed;    ///< of the generator
  uint64_t stream;  ///< counted from 0
};

/// Four random words.
struct PhiloxBlock {
  uint32_t word[4];  ///< all 32 bits of each are random
};

/// Words 4·block … 4·block + 3 of a stream: Philox 4×32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as
/// 1, 2, 3"), keyed by the seed, with the counter (block, stream). The functions here are `static`, because
/// translation units for different instruction sets must not share a compiled copy.
static constexpr PhiloxBlock philox(RandomKey key, uint64_t block) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(key.stream), c3 = static_cast<uint32_t>(key.stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t next0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t next2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = next0;
    c2 = next2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Word `index` of the stream.
static constexpr uint32_t random_word(RandomKey key, uint64_t index) {
  return philox(key, index / 4).word[index % 4];
}

/// A word as a float in [0, 1). It uses 24 bits, so that the result is exact and never 1. (The integer is signed,
/// because signed integers convert fast on every processor.)
static constexpr float to_uniform(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

/// The dropout threshold: an element is kept when its word is below `keep · 2^32`. The actual keep rate is `threshold
/// / 2^32`, which differs from `keep` by at most 2^-32.
static constexpr uint64_t keep_threshold(double keep) { return static_cast<uint64_t>(keep * 4294967296.0); }

}  // namespace linnet
