#pragma once

#include <cstdint>

#include <linnet/core/random/philox.h>

namespace linnet::examples {

/// Random numbers of a stream, one after the other.
class Draws {
 public:
  explicit Draws(RandomKey key) : key_(key) {}

  /// A whole number below `end`, which is at most 2^32.
  int64_t below(int64_t end) {
    const uint64_t product = uint64_t{word()} * static_cast<uint64_t>(end);
    return static_cast<int64_t>(product >> 32);
  }
  /// In [0, 1).
  double uniform() { return word() * 0x1p-32; }

 private:
  uint32_t word() {
    if (next_ % 4 == 0) block_ = philox(key_, next_ / 4);
    return block_.word[next_++ % 4];
  }

  RandomKey key_;
  PhiloxBlock block_ = {};
  uint64_t next_ = 0;
};

}  // namespace linnet::examples
