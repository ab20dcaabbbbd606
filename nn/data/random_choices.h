#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <linnet/core/random/philox.h>

/// Random choices of data sets, loaders and transforms. Each depends only on its key.

namespace linnet::detail {

/// Fisher & Yates' shuffle.
inline void shuffle(std::vector<int64_t>& order, RandomKey key) {
  for (size_t i = order.size(); i > 1; --i) {
    const uint64_t word = random_word(key, i);
    std::swap(order[i - 1], order[(word * i) >> 32]);
  }
}

/// The key of a new random stream, made from block `index` of `stream`.
inline RandomKey key_of_block(RandomKey stream, uint64_t index) {
  const PhiloxBlock block = philox(stream, index);
  return {uint64_t{block.word[0]} << 32 | block.word[1], uint64_t{block.word[2]} << 32 | block.word[3]};
}

/// Draw number `draw` of the stream, as a whole number from −most to most.
inline int64_t random_offset(RandomKey key, uint64_t draw, int64_t most) {
  return static_cast<int64_t>((random_word(key, draw) * static_cast<uint64_t>(2 * most + 1)) >> 32) - most;
}

/// Writes one channel of an image, moved by `down` and `right`. Each pixel is `convert` of the old one, or of 0 where
/// the old image has none.
template <class Pixel, class T, class Convert>
void shift_plane(const Pixel* from, T* to, int64_t height, int64_t width, int64_t down, int64_t right,
                 const Convert& convert) {
  for (int64_t y = -down; y < height - down; ++y) {
    for (int64_t x = -right; x < width - right; ++x) {
      const bool inside = y >= 0 && y < height && x >= 0 && x < width;
      *to++ = convert(inside ? from[y * width + x] : Pixel{});
    }
  }
}

}  // namespace linnet::detail
