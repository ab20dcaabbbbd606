#pragma once

#include <cstdint>

#include <linnet/core/random/philox.h>

namespace linnet {

/// A counter-based random generator: a seed and the number of draws made so far. Each random op takes one draw, and
/// what it draws depends on (seed, draw, element) alone: not on threads, and integers, uniforms and dropout masks
/// not on the device either. Copying one copies its state; two with the same state draw the same.
class Generator {
 public:
  /// All that there is to it: what a checkpoint keeps.
  struct State {
    uint64_t seed;
    uint64_t draws;
  };

  /// At its first draw.
  explicit Generator(uint64_t seed) : state_{seed, 0} {}

  /// The key of the next draw. Throws ValueError in a recording that does not know this generator.
  RandomKey next();
  /// A generator of its own, independent of this one: for a loader, say, beside a model.
  Generator split();

  /// To save it, and to go on from there.
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

 private:
  State state_;
};

}  // namespace linnet
