#pragma once

#include <csetjmp>
#include <cstddef>

#include <ucontext.h>

namespace linnet::emulation {

/// A call of a function on a stack of its own, which can be left and gone on with. Never destroyed.
class Fiber {
 public:
  /// `body` must not return. `number` sets the stacks of many fibers apart in the cache.
  Fiber(void (*body)(), size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From outside: enters, or goes on after pause(), until the next pause().
  void resume();
  /// From within.
  void pause();

 private:
  ucontext_t start_;
  bool started_ = false;
  jmp_buf inside_, outside_;
};

}  // namespace linnet::emulation
