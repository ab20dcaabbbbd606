#pragma once

#include <cstdint>

#include <linnet/core/random/philox.h>

namespace linnet {

/// A counter-based random generator: a seed and a number of streams. Each random op takes the next stream. A random
/// number depends only on the seed, the stream and the element's index, and not on threads. Integers, uniform
/// numbers and dropout masks do not depend on the device either. A copy has the same state, and gives the same
/// numbers.
class Generator {
 public:
  /// The whole state, for a checkpoint.
  struct State {
    uint64_t seed;   ///< as given to the generator
    uint64_t draws;  ///< the number of streams taken so far
  };

  /// A generator before its first stream.
  explicit Generator(uint64_t seed) : state_{seed, 0} {}

  /// The key of the next stream.
  ///
  /// Throws: ValueError in a Recording that has another generator.
  RandomKey next();
  /// A new generator that is independent of this one, for example for a Loader. Takes one stream.
  Generator split();

  /// The state, to save and to restore.
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

 private:
  State state_;
};

}  // namespace linnet
