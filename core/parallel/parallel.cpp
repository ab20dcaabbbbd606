#include <linnet/core/parallel/parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/allocator.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/cpu_quota.h>
#include <linnet/core/parallel/thread.h>
#include <linnet/core/parallel/thread_share.h>

/// The thread pool. It does not use OpenMP, for two reasons. First, threads here spin for a bounded time only, so
/// that another process on a core costs us a share of that core; libgomp by default spins without bound, which can
/// stall a whole training step. Second, this pool does not disturb a program that uses OpenMP itself.

namespace linnet {
namespace {

/// The number of times that a thread polls for work, or for the end of a loop, before it sleeps. This takes 20 to 80
/// µs, depending on the processor's pause instruction. That is longer than the gap between two ops of a training
/// step, and too short to slow down other processes.
constexpr int kSpins = 2000;

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // the `yield` instruction is meant for this, but does nothing on most ARM processors
#else
  std::this_thread::yield();
#endif
}

template <class Condition>
bool spin_until(Condition condition) {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    relax();
  }
  return false;
}

/// Makes a worker yield its core now and then, between two tasks. If a worker is preempted inside a task, the whole
/// loop waits until it runs again. If it yields between tasks, other threads take the remaining tasks. The caller of
/// a loop never yields, because only it runs the code after the loop.
class PeriodicYield {
 public:
  void between_tasks() {
    if (Clock::now() - since_ < kTurn) return;
    sched_yield();  // returns at once if no thread waits for this core
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Shorter than Linux's time slice when two threads share a core, which is 3 to 4 ms.
  static constexpr std::chrono::milliseconds kTurn{2};

  Clock::time_point since_ = Clock::now();
};

/// The cores that this thread may use; empty if the system does not say.
cpu_set_t allowed_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

/// Keeps the pool's threads on separate cores. Linux may wake a worker on the core of the thread that wakes it, or on
/// the core where the worker fell asleep, which the caller may use by now, although other cores are idle. The two
/// then share one core for tens of milliseconds. Moving the worker helps even if another process keeps the only other
/// core busy: half of that core is worth more than half of the caller's.
class Cores {
 public:
  explicit Cores(int threads) : of_worker_(static_cast<size_t>(threads - 1)) {
    const cpu_set_t allowed = allowed_cores();
    enough_ = CPU_COUNT(&allowed) >= threads;
    for (std::atomic<int>& core : of_worker_) core = kUnknown;
  }

  /// Notes the core of the calling worker. A worker calls this when it begins to look for work and when it wakes.
  void note(size_t worker) {
    const int core = sched_getcpu();
    if (of_worker_[worker].load() != core) of_worker_[worker].store(core);
  }

  /// Moves workers that are on the calling thread's core, or on an earlier worker's, to other cores. The caller of a
  /// loop calls this.
  void separate(std::vector<std::thread>& workers) {
    if (!enough_) return;
    cpu_set_t taken;
    CPU_ZERO(&taken);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &taken);
    for (size_t i = 0; i < workers.size(); ++i) {
      const int core = of_worker_[i].load();
      if (core == kUnknown) continue;
      if (CPU_ISSET(static_cast<size_t>(core), &taken) && send_away(workers[i], taken)) of_worker_[i].store(kUnknown);
      CPU_SET(static_cast<size_t>(core), &taken);
    }
  }

 private:
  static constexpr int kUnknown = -1;

  static bool send_away(std::thread& worker, const cpu_set_t& taken) {
    const cpu_set_t allowed = allowed_cores();
    cpu_set_t free;
    CPU_AND(&free, &allowed, &taken);
    CPU_XOR(&free, &allowed, &free);
    return CPU_COUNT(&free) > 0 && pthread_setaffinity_np(worker.native_handle(), sizeof free, &free) == 0;
  }

  std::vector<std::atomic<int>> of_worker_;
  bool enough_;  ///< whether each thread can have a core of its own
};

thread_local bool inside_task = false;

/// A guard: while it lives, this thread runs tasks of a loop.
class InsideTask {
 public:
  InsideTask() { inside_task = true; }
  ~InsideTask() { inside_task = false; }
  InsideTask(const InsideTask&) = delete;
  InsideTask& operator=(const InsideTask&) = delete;
};

/// Threads that run one loop at a time. The caller of the loop is the first thread. Each thread begins with its own
/// range of the tasks, its share. The share is the same in every loop with the same number of tasks, so the rows that
/// one op leaves in a core's cache are the rows that the next op reads there. A thread that has finished its share
/// takes tasks from other shares, so a thread that the system schedules late does not delay the loop.
///
/// A share is a counter of its remaining tasks. A thread that decrements it from r to r − 1 has taken task end − r of
/// the share in the current loop, and that loop cannot end before the task does.
class ThreadPool {
 public:
  /// If the system gives fewer threads, these take the tasks of all shares.
  explicit ThreadPool(int threads) : shares_(static_cast<size_t>(threads)), cores_(threads) {
    workers_.reserve(shares_.size());
    for (size_t i = 1; i < shares_.size(); ++i) {
      std::thread worker = detail::start_thread([this, i] { work(i); });
      if (!worker.joinable()) break;
      workers_.push_back(std::move(worker));
    }
  }

  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(shares_.size()); }

  void run(int64_t count, detail::Task task, void* context) {
    task_ = task;
    context_ = context;
    count_ = count;
    call_ = Call::outermost();
    records_ = grad_enabled();
    finds_nan_ = AnomalyMode::enabled();
    error_ = nullptr;
    completed_.store(0, std::memory_order_relaxed);
    for (size_t i = shares_.size(); i-- > 0;) shares_[i].remaining.store(begin_of(i + 1) - begin_of(i));
    cores_.separate(workers_);
    if (sleeping_.load() > 0) {
      const std::lock_guard lock(mutex_);
      wake_.notify_all();
    }

    take_tasks(0, [] {});

    const auto finished = [&] { return completed_.load(std::memory_order_acquire) == count; };
    if (!spin_until(finished)) {
      std::unique_lock lock(mutex_);
      done_.wait(lock, finished);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> remaining{0};
  };

  /// The first task of share i; begin_of(i + 1) is its end. If the tasks do not divide evenly, earlier shares have
  /// one more.
  int64_t begin_of(size_t i) const {
    const auto threads = static_cast<int64_t>(shares_.size()), before = static_cast<int64_t>(i);
    return count_ / threads * before + std::min(count_ % threads, before);
  }

  /// Runs tasks until none is left, first those of thread `self`'s own share. Calls `between` after each.
  template <class Between>
  void take_tasks(size_t self, Between between) {
    const InsideTask inside;
    for (size_t i = 0; i < shares_.size(); ++i) {
      while (take_task((self + i) % shares_.size())) between();
    }
  }

  /// Takes a task of the share and runs it. Returns false if none is left.
  bool take_task(size_t share) {
    std::atomic<int64_t>& left = shares_[share].remaining;
    int64_t remaining = left.load();
    do {
      if (remaining <= 0) return false;
    } while (!left.compare_exchange_weak(remaining, remaining - 1));
    const int64_t count = count_;
    int64_t ended = 1;
    try {
      run_task(begin_of(share + 1) - remaining);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      for (Share& each : shares_) ended += each.remaining.exchange(0);
    }
    if (completed_.fetch_add(ended, std::memory_order_acq_rel) + ended == count) {
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
    return true;
  }

  /// Runs a task as the thread that started the loop would: inside its Call, so that errors on any thread name that
  /// call, and with its NoGrad and AnomalyMode.
  void run_task(int64_t index) const {
    std::optional<NoGrad> no_grad;
    if (!records_) no_grad.emplace();
    std::optional<AnomalyMode> anomaly_mode;
    if (finds_nan_) anomaly_mode.emplace();
    std::optional<Call> call;
    if (call_ != nullptr) call.emplace(call_->name(), call_->where(), call_->prefix());
    task_(context_, index);
  }

  void work(size_t self) {
    PeriodicYield periodic_yield;
    const auto called = [&] { return shares_[self].remaining.load() > 0 || stopping_; };
    while (!stopping_) {
      cores_.note(self - 1);
      if (!spin_until(called)) {
        std::unique_lock lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, called);
        --sleeping_;
        cores_.note(self - 1);
      }
      take_tasks(self, [&] { periodic_yield.between_tasks(); });
    }
  }

  std::vector<Share> shares_;
  Cores cores_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> completed_{0};
  int64_t count_ = 0;
  const Call* call_ = nullptr;  ///< the caller's outermost Call, or null
  bool records_ = true;         ///< whether the caller's ops are recorded
  bool finds_nan_ = false;      ///< whether the caller is in AnomalyMode
  detail::Task task_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
};

struct ThreadCount {
  int count;
  const char* decided_by;
};

ThreadCount default_threads() {
  if (const char* text = std::getenv("LINNET_NUM_THREADS")) {
    char* end = nullptr;
    const long count = std::strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || count < 1 || count > 1024) {
      throw ValueError(fmt::format("LINNET_NUM_THREADS is \"{}\"; it must be a whole number from 1 to 1024", text));
    }
    return {static_cast<int>(count), "LINNET_NUM_THREADS"};
  }
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const cpu_set_t allowed = allowed_cores();
  const int affinity = CPU_COUNT(&allowed) > 0 ? CPU_COUNT(&allowed) : processors;
  // With more threads than the quota, they use up its time early, and the system stops all of them until the next
  // period.
  const std::optional<double> quota = cpu_quota();
  if (quota && *quota < affinity) return {std::max(1, static_cast<int>(*quota)), "CPU quota"};
  return {affinity, affinity < processors ? "affinity" : "all processors"};
}

struct Threads {
  std::mutex mutex;  // held by the loop that uses the pool
  std::unique_ptr<ThreadPool> pool;
  std::atomic<int> count;
  std::atomic<const char*> decided_by;

  explicit Threads(ThreadCount by_default) : count(by_default.count), decided_by(by_default.decided_by) {}
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

/// The process's threads. They are never destroyed, because destructors of other static objects may still run ops.
/// Waiting threads do no harm when the process ends, and our shared library is never unloaded (`nodelete` in
/// CMakeLists.txt).
Threads& threads() {
  static Threads* const instance = [] {
    auto* const made = new Threads(default_threads());
    cpu_memory::handle_forks();  // tasks allocate
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return made;
  }();
  return *instance;
}

// A forked child has the pool's memory, but none of its threads. It drops that pool without destroying it, because
// the locks and thread handles are the parent's, and makes a new one. A fork inside a task does not lock, because
// this thread may hold the lock already. The child of such a fork runs without a pool, like the task.

void before_fork() {
  if (!inside_task) threads().mutex.lock();
}

void after_fork_in_parent() {
  if (!inside_task) threads().mutex.unlock();
}

void after_fork_in_child() {
  if (inside_task) return;
  [[maybe_unused]] const ThreadPool* const of_the_parent = threads().pool.release();
  threads().mutex.unlock();
}

}  // namespace

int num_threads() { return threads().count; }

std::string describe_threads() {
  const Threads& all = threads();
  return fmt::format("{} threads ({})", all.count.load(), all.decided_by.load());
}

void set_num_threads(int count, Where where) {
  const Call call("set_num_threads", where);
  detail::set_num_threads(count, "set by the program");
}

void detail::set_num_threads(int count, const char* decided_by) {
  if (count < 1) throw ValueError(fmt::format("there must be at least 1, not {}", count));
  if (inside_task) throw ValueError("the number of threads cannot change inside a parallel loop; set it before");
  Threads& all = threads();
  const std::lock_guard lock(all.mutex);
  all.count = count;
  all.decided_by = decided_by;
  if (all.pool && all.pool->threads() != count) all.pool.reset();
}

void detail::run_tasks(int64_t count, Task task, void* context) {
  const auto serially = [&] {
    for (int64_t i = 0; i < count; ++i) task(context, i);
  };
  if (count <= 1 || inside_task) return serially();
  Threads& all = threads();
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock || all.count == 1) {
    const InsideTask inside;
    return serially();
  }
  if (!all.pool) all.pool = std::make_unique<ThreadPool>(all.count);
  all.pool->run(count, task, context);
}

}  // namespace linnet
