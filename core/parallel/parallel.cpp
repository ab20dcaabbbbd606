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

#include <linnet/core/device/allocator.h>
#include <linnet/core/error.h>
#include <linnet/core/parallel/cpu_quota.h>
#include <linnet/core/parallel/thread.h>

/// A small pool of our own rather than OpenMP's: its threads wait with a bounded spin, so that a neighbour who keeps
/// a core busy costs us a share of that core and not the whole step (libgomp spins without bound by default), and a
/// program that brings an OpenMP of its own is not disturbed.

namespace linnet {
namespace {

/// How often a thread polls for work, or for the end of a loop, before it sleeps: for 20 to 80 µs, as long as a pause
/// is on this processor. That is longer than the gap between two ops of a training step, and shorter than anything a
/// neighbour would notice.
constexpr int kSpins = 2000;

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // its instruction for this, yield, is none on most processors
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

/// Lets others who wait for a worker's core have it now and then, at a moment when the worker holds no task. Who is
/// stopped by the system in the middle of one, for a whole turn of the neighbour's, lets all other threads wait for
/// its end; who steps aside leaves the rest to them. The caller of loops stays, since nobody else has what comes
/// next.
class PeriodicYield {
 public:
  void between_tasks() {
    if (Clock::now() - since_ < kTurn) return;
    sched_yield();  // returns at once where nobody waits
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Shorter than the turns that Linux gives to two threads of one core: 3 to 4 ms.
  static constexpr std::chrono::milliseconds kTurn{2};

  Clock::time_point since_ = Clock::now();
};

/// The cores that this thread may use; none where the system does not say.
cpu_set_t allowed_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

/// Keeps a pool's threads on cores of their own. Linux may wake a worker on the core of whoever wakes it, or leave it
/// where it fell asleep, which is now the caller's, although other cores are idle; both then take turns on one, for
/// tens of milliseconds. And where the only other core is busy with somebody else, its half is worth more than half
/// of the caller's.
class Cores {
 public:
  explicit Cores(int threads) : of_worker_(static_cast<size_t>(threads - 1)) {
    const cpu_set_t allowed = allowed_cores();
    enough_ = CPU_COUNT(&allowed) >= threads;
    for (std::atomic<int>& core : of_worker_) core = kUnknown;
  }

  /// By a worker, of itself, when it begins to look for work and when it wakes.
  void note(size_t worker) {
    const int core = sched_getcpu();
    if (of_worker_[worker].load() != core) of_worker_[worker].store(core);
  }

  /// By the caller of a loop: whoever is on its core, or on that of a worker before it, is from now on to keep away.
  void part(std::vector<std::thread>& workers) {
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
  bool enough_;  ///< for all threads
};

thread_local bool inside_task = false;

/// While one lives, this thread runs tasks of a loop.
class InsideTask {
 public:
  InsideTask() { inside_task = true; }
  ~InsideTask() { inside_task = false; }
  InsideTask(const InsideTask&) = delete;
  InsideTask& operator=(const InsideTask&) = delete;
};

/// Threads that share one loop at a time; the caller is the first of them. Each begins with a share of its own, the
/// same part of every loop, so that the rows that one op leaves in a core's cache are those that the next op reads
/// there. Who is done takes from the shares of others: a thread that was not scheduled in time holds up nobody.
///
/// How many tasks remain is all that taking one touches: a successful decrement from r to r − 1 owns task end − r of
/// the share in the loop that is under way, and that loop cannot end before the task does.
class Pool {
 public:
  /// Where the system has not as many threads to give, those that there are take all shares.
  explicit Pool(int threads) : shares_(static_cast<size_t>(threads)), cores_(threads) {
    workers_.reserve(shares_.size());
    for (size_t i = 1; i < shares_.size(); ++i) {
      std::thread worker = detail::start_thread([this, i] { work(i); });
      if (!worker.joinable()) break;
      workers_.push_back(std::move(worker));
    }
  }

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(shares_.size()); }

  void run(int64_t count, detail::Task task, void* context) {
    task_ = task;
    context_ = context;
    count_ = count;
    call_ = Call::outermost();
    error_ = nullptr;
    completed_.store(0, std::memory_order_relaxed);
    for (size_t i = shares_.size(); i-- > 0;) shares_[i].remaining.store(end_of(i + 1) - end_of(i));
    cores_.part(workers_);
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

  /// Where the share before share i ends, which is where that one begins. The first one is never the smaller.
  int64_t end_of(size_t i) const {
    const auto threads = static_cast<int64_t>(shares_.size()), before = static_cast<int64_t>(i);
    return count_ / threads * before + std::min(count_ % threads, before);
  }

  /// Takes tasks, of thread `self`'s share first, until none is left; `between` is called after each.
  template <class Between>
  void take_tasks(size_t self, Between between) {
    const InsideTask inside;
    for (size_t i = 0; i < shares_.size(); ++i) {
      while (take_task((self + i) % shares_.size())) between();
    }
  }

  /// False where the share has no task left.
  bool take_task(size_t share) {
    std::atomic<int64_t>& left = shares_[share].remaining;
    int64_t remaining = left.load();
    do {
      if (remaining <= 0) return false;
    } while (!left.compare_exchange_weak(remaining, remaining - 1));
    const int64_t count = count_;
    int64_t ended = 1;
    try {
      run_task(end_of(share + 1) - remaining);
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

  /// Within the call that made the loop, so that errors name it on any thread.
  void run_task(int64_t index) const {
    std::optional<Call> call;
    if (call_ != nullptr) call.emplace(call_->name(), call_->where(), call_->prefix());
    task_(context_, index);
  }

  void work(size_t self) {
    PeriodicYield courtesy;
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
      take_tasks(self, [&] { courtesy.between_tasks(); });
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
  const Call* call_ = nullptr;  ///< the outermost one where the loop was made, or null
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
  // More threads than the quota would use up its time early, and then all of them stand still until the next period.
  const std::optional<double> quota = cpu_quota();
  if (quota && *quota < affinity) return {std::max(1, static_cast<int>(*quota)), "CPU quota"};
  return {affinity, affinity < processors ? "affinity" : "all processors"};
}

struct Threads {
  std::mutex mutex;  // held by the loop that uses the pool
  std::unique_ptr<Pool> pool;
  std::atomic<int> count;
  std::atomic<const char*> decided_by;

  explicit Threads(ThreadCount by_default) : count(by_default.count), decided_by(by_default.decided_by) {}
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

/// Never destroyed: what is destroyed after any static of ours may still run ops. Threads that wait when the process
/// ends do no harm; a shared library of ours is not unloaded from under them (`nodelete` in CMakeLists.txt).
Threads& threads() {
  static Threads* const instance = [] {
    auto* const made = new Threads(default_threads());
    cpu_memory::handle_forks();  // tasks allocate
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return made;
  }();
  return *instance;
}

// A child that a process forks has the memory of the pool and none of its threads. It leaves that pool alone, whose
// locks and thread handles are the parent's, and makes one of its own. In a task the lock may be this thread's own:
// such a child goes on without a pool, as the task does.

void before_fork() {
  if (!inside_task) threads().mutex.lock();
}

void after_fork_in_parent() {
  if (!inside_task) threads().mutex.unlock();
}

void after_fork_in_child() {
  if (inside_task) return;
  [[maybe_unused]] const Pool* const of_the_parent = threads().pool.release();
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
  if (count < 1) throw ValueError(fmt::format("there must be at least 1, not {}", count));
  if (inside_task) throw ValueError("the number of threads cannot change inside a parallel loop; set it before");
  Threads& all = threads();
  const std::lock_guard lock(all.mutex);
  all.count = count;
  all.decided_by = "set by the program";
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
  if (!all.pool) all.pool = std::make_unique<Pool>(all.count);
  all.pool->run(count, task, context);
}

}  // namespace linnet
