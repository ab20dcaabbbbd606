#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <linnet/core/where.h>

namespace linnet {

/// The number of threads that ops use, including the calling thread. By default it is `LINNET_NUM_THREADS`. If that
/// is not set, it is the number of processors in the process's affinity mask, but at most its CPU quota (see
/// cpu_quota.h) rounded down, and at least 1. Results do not depend on it, because work is divided by size alone.
int num_threads();
/// The number of threads and the reason for it, such as `1 threads (CPU quota)`.
std::string describe_threads();
/// Sets the number of threads for the whole process.
///
/// Throws: ValueError for a number below 1, and inside a parallel loop.
void set_num_threads(int count, Where where = {});

namespace detail {
using Task = void (*)(void* context, int64_t task);
void run_tasks(int64_t count, Task task, void* context);
}  // namespace detail

/// Runs `body(task)` for every task in [0, count), on several threads. Each thread begins with its own range of
/// tasks, in order. The range is the same in every loop of this count. After that the thread takes tasks from the
/// ranges of other threads, one at a time. A loop inside a task runs serially, and so does a loop that starts while
/// another thread runs one.
///
/// Throws: the body's exception, which ends the loop.
template <class Body>
void parallel_tasks(int64_t count, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  detail::run_tasks(
      count, [](void* context, int64_t task) { (*static_cast<Callable*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Runs `body(begin, end)` on [0, count) in ranges of `grain`, one task each. The ranges depend on `count` and
/// `grain` alone, so one sum for each range, added in order, is the same for any number of threads.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  const int64_t tasks = (count + grain - 1) / grain;
  parallel_tasks(tasks, [&](int64_t task) {
    const int64_t begin = task * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace linnet
