#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <linnet/core/where.h>

namespace linnet {

/// Threads that ops use, the caller's included: `LINNET_NUM_THREADS`, or by default as many as there are processors
/// that the process may run on (its affinity), and no more than its CPU quota (see cpu_quota.h) rounded down, but at
/// least 1. No result depends on it: work is divided by size alone.
int num_threads();
/// The number and what decided it, as `1 threads (CPU quota)`.
std::string describe_threads();
/// Sets it, for the whole process. Throws ValueError below 1, and inside a parallel loop.
void set_num_threads(int count, Where where = {});

namespace detail {
using Task = void (*)(void* context, int64_t task);
void run_tasks(int64_t count, Task task, void* context);
}  // namespace detail

/// Runs `body(task)` for every task in [0, count), on several threads: each begins with its own part of them, in
/// order, the same in every loop, and then helps the others, task by task. An exception ends the loop and reaches the
/// caller. A loop inside a task, or beside another thread's loop, runs serially.
template <class Body>
void parallel_tasks(int64_t count, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  detail::run_tasks(
      count, [](void* context, int64_t task) { (*static_cast<Callable*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Runs `body(begin, end)` over [0, count) in pieces of `grain`. The pieces depend on `count` and `grain` only, so
/// a sum per piece, added up in order, is the same for any number of threads.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  const int64_t pieces = (count + grain - 1) / grain;
  parallel_tasks(pieces, [&](int64_t piece) {
    const int64_t begin = piece * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace linnet
