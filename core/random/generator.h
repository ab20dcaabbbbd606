#pragma once

#include <cstdint>

#include <linnet/core/random/philox.h>

namespace linnet {

/// A counter-based random generator: a seed and the number of draws made so far. Each random op takes one draw. Its
/// numbers depend on (seed, draw, element) alone, and not on threads; integers, uniform numbers and dropout masks do
/// not depend on the device either. A copy has the same state, and draws the same numbers.
class Generator {
 public:
  /// The whole state, for a checkpoint.
  struct State {
    uint64_t seed;   ///< as given to the generator
    uint64_t draws;  ///< how many were taken
  };

  /// A generator before its first draw.
  explicit Generator(uint64_t seed) : state_{seed, 0} {}

  /// The key of the next draw.
  ///
  /// Throws: ValueError in a Recording that has another generator.
  RandomKey next();
  /// A new generator, independent of this one: for a loader beside a model, for example. Takes one draw.
  Generator split();

  /// The state, to save and to restore.
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

 private:
  State state_;
};

}  // namespace linnet
