// A fiber jumps from one stack to another, which glibc's checked longjmp would report as an error.
#undef _FORTIFY_SOURCE

#include "fiber.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/mman.h>

namespace linnet::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 64 * kPage;

/// A stack. Access to its lowest page faults, so that an overflow is noticed.
void* make_stack() {
  void* stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE) != 0) {
    std::perror("no memory for the stack of a fiber");
    std::abort();
  }
  return stack;
}

}  // namespace

Fiber::Fiber(void (*body)(), size_t number) {
  getcontext(&start_);
  start_.uc_link = nullptr;
  start_.uc_stack.ss_sp = make_stack();
  start_.uc_stack.ss_size = kStackBytes - number * 320 % kPage;
  makecontext(&start_, body, 0);
}

/// Does the same as swapcontext, but without a system call in each switch.
void Fiber::resume() {
  if (_setjmp(outside_) != 0) return;
  if (std::exchange(started_, true)) _longjmp(inside_, 1);
  setcontext(&start_);
}

void Fiber::pause() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

}  // namespace linnet::emulation
