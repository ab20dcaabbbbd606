#pragma once

#include <csetjmp>
#include <cstddef>

#include <ucontext.h>

namespace linnet::emulation {

/// A call of a function on its own stack, which can be suspended and resumed. Never destroyed.
class Fiber {
 public:
  /// `body` must not return. `number` shifts the stacks of many fibers, so that they use different lines of the
  /// cache.
  Fiber(void (*body)(), size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Called from outside: starts the function, or resumes it after pause(), and returns at the next pause().
  void resume();
  /// Called by the function: suspends it.
  void pause();

 private:
  ucontext_t start_;
  bool started_ = false;
  jmp_buf inside_, outside_;
};

}  // namespace linnet::emulation
