#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <linnet/core/device/profiled_call.h>
#include <linnet/core/distributed/transport.h>
#include <linnet/core/error.h>

/// The messages of a ProcessGroup by MPI. The MPI library is used if a launcher has started the program, or if the
/// program has loaded it itself. It is not linked, because linking would make every program start some milliseconds
/// later, and would keep programs from starting on machines without MPI.

namespace linnet {
namespace {

#ifdef OPEN_MPI
constexpr const char* kImplementation = "Open MPI";
constexpr const char* kPackage = "openmpi-bin";
#else
constexpr const char* kImplementation = "MPICH";  // Intel MPI and others have its ABI
constexpr const char* kPackage = "mpich";
#endif

std::string remedy() {
  return fmt::format("install it, for example with the package {}, or name its folder in LD_LIBRARY_PATH", kPackage);
}

/// A function or a variable of the library.
class Symbol {
 public:
  Symbol(void* library, const char* name) : address_(dlsym(library, name)) {
    if (address_ == nullptr) throw IoError(fmt::format("{} has no {}; {}", LINNET_MPI_NAME, name, remedy()));
  }
  template <class Type>
  operator Type*() const {  // NOLINT(google-explicit-constructor): to the type of the initialised variable
    return reinterpret_cast<Type*>(address_);
  }

 private:
  void* address_;
};

/// The functions and handles of MPI that are used here. Handles are addresses of variables in Open MPI, and numbers
/// in MPICH.
struct Mpi {
  explicit Mpi(void* opened) : library(opened) {}

  void* library;
  decltype(MPI_Initialized)* initialized = Symbol(library, "MPI_Initialized");
  decltype(MPI_Finalized)* finalized = Symbol(library, "MPI_Finalized");
  decltype(MPI_Init_thread)* init_thread = Symbol(library, "MPI_Init_thread");
  decltype(MPI_Query_thread)* query_thread = Symbol(library, "MPI_Query_thread");
  decltype(MPI_Is_thread_main)* is_thread_main = Symbol(library, "MPI_Is_thread_main");
  decltype(MPI_Finalize)* finalize = Symbol(library, "MPI_Finalize");
  decltype(MPI_Abort)* abort = Symbol(library, "MPI_Abort");
  decltype(MPI_Error_string)* error_string = Symbol(library, "MPI_Error_string");
  decltype(MPI_Comm_dup)* comm_dup = Symbol(library, "MPI_Comm_dup");
  decltype(MPI_Comm_free)* comm_free = Symbol(library, "MPI_Comm_free");
  decltype(MPI_Comm_rank)* comm_rank = Symbol(library, "MPI_Comm_rank");
  decltype(MPI_Comm_size)* comm_size = Symbol(library, "MPI_Comm_size");
  decltype(MPI_Comm_set_errhandler)* comm_set_errhandler = Symbol(library, "MPI_Comm_set_errhandler");
  decltype(MPI_Isend)* isend = Symbol(library, "MPI_Isend");
  decltype(MPI_Irecv)* irecv = Symbol(library, "MPI_Irecv");
  decltype(MPI_Testall)* testall = Symbol(library, "MPI_Testall");
  decltype(MPI_Waitall)* waitall = Symbol(library, "MPI_Waitall");
  decltype(MPI_Iallreduce)* iallreduce = Symbol(library, "MPI_Iallreduce");
  decltype(MPI_Ibarrier)* ibarrier = Symbol(library, "MPI_Ibarrier");
  decltype(MPI_Barrier)* barrier = Symbol(library, "MPI_Barrier");
  decltype(MPI_Bcast)* bcast = Symbol(library, "MPI_Bcast");
  decltype(MPI_Allgather)* allgather = Symbol(library, "MPI_Allgather");
#ifdef OPEN_MPI
  MPI_Comm world = Symbol(library, "ompi_mpi_comm_world");
  MPI_Datatype byte = Symbol(library, "ompi_mpi_byte");
  MPI_Datatype float32 = Symbol(library, "ompi_mpi_float");
  MPI_Datatype float64 = Symbol(library, "ompi_mpi_double");
  MPI_Op sum = Symbol(library, "ompi_mpi_op_sum");
  MPI_Errhandler errors_return = Symbol(library, "ompi_mpi_errors_return");
#else
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Datatype byte = MPI_BYTE, float32 = MPI_FLOAT, float64 = MPI_DOUBLE;
  MPI_Op sum = MPI_SUM;
  MPI_Errhandler errors_return = MPI_ERRORS_RETURN;
#endif

  void check(int status, const char* what) const {
    if (status == MPI_SUCCESS) return;
    std::string text(MPI_MAX_ERROR_STRING, '\0');
    int size = 0;
    error_string(status, text.data(), &size);
    throw IoError(fmt::format("MPI failed in {}: {}", what, text.substr(0, static_cast<size_t>(size))));
  }
};

/// MPI's state in this process. It is initialised here, or by the program before. If it was initialised here, it is
/// finalised when the process ends. Never destroyed, because groups may live as long as the process.
class Session {
 public:
  explicit Session(void* library) : mpi_(library) {
    int is_initialized = 0;
    mpi_.initialized(&is_initialized);
    if (is_initialized != 0) {
      if (!is_finalized()) mpi_.check(mpi_.query_thread(&level_), "MPI_Query_thread");
      return;
    }
    mpi_.check(mpi_.init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level_), "MPI_Init_thread");
    is_own_ = true;
    current = this;
    std::atexit([] { current->finalize(); });
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Mpi& mpi() const { return mpi_; }
  bool is_finalized() const {
    int is_finalized = 0;
    mpi_.finalized(&is_finalized);
    return is_finalized != 0;
  }
  /// Throws IoError unless the calling thread may use MPI in a program with several threads.
  void check_threads() const {
    if (is_finalized()) throw IoError("the program has finalised MPI, which cannot restart; finalise it at its end");
    int is_main = 0;
    mpi_.check(mpi_.is_thread_main(&is_main), "MPI_Is_thread_main");
    if (is_main == 0) throw IoError("MPI was initialised on another thread; make the ProcessGroup there");
    if (level_ >= MPI_THREAD_FUNNELED) return;
    throw IoError(fmt::format(
        "MPI was initialised without MPI_THREAD_FUNNELED, which linnet's threads need; {}",
        is_own_ ? "this MPI does not provide it: use another" : "call MPI_Init_thread with it in place of MPI_Init"));
  }
  /// After this call, the process ends without MPI_Finalize, and the launcher ends the other processes.
  void fail() { has_failed_ = true; }

 private:
  void finalize() const {
    if (!has_failed_ && !is_finalized()) mpi_.finalize();
  }

  static inline Session* current = nullptr;
  Mpi mpi_;
  int level_ = MPI_THREAD_SINGLE;
  bool is_own_ = false, has_failed_ = false;
};

/// A call of an MPI function, for a profile. During backward, the network may work while the processor computes;
/// after backward, the processor waits.
KernelCall call_of(const char* function) {
  KernelCall call;
  call.op = "messages";
  call.kernel = function;
  return call;
}

/// Running MPI requests.
class Requests : public Work::Steps {
 public:
  explicit Requests(const Mpi& mpi) : mpi_(mpi) {}
  bool advance(bool wait) override {
    int is_done = 1;
    const detail::ProfiledCall timed(call_of(wait ? "MPI_Waitall" : "MPI_Testall"));
    if (wait) {
      mpi_.check(mpi_.waitall(count, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    } else {
      mpi_.check(mpi_.testall(count, requests, &is_done, MPI_STATUSES_IGNORE), "MPI_Testall");
    }
    return is_done != 0;
  }

  MPI_Request requests[2] = {};
  int count = 0;

 private:
  const Mpi& mpi_;
};

class MpiTransport : public detail::Transport {
 public:
  explicit MpiTransport(Session& session) : session_(session), mpi_(session.mpi()) {
    session.check_threads();
    for (MPI_Comm* const own : {&comm_, &end_}) {  // separates our messages from the program's
      mpi_.check(mpi_.comm_dup(mpi_.world, own), "MPI_Comm_dup");
      mpi_.check(mpi_.comm_set_errhandler(*own, mpi_.errors_return), "MPI_Comm_set_errhandler");
    }
    mpi_.check(mpi_.comm_rank(comm_, &rank_), "MPI_Comm_rank");
    mpi_.check(mpi_.comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~MpiTransport() override {
    if (has_failed_ || session_.is_finalized()) return;  // freeing would wait for the other ranks
    mpi_.comm_free(&comm_);
    mpi_.comm_free(&end_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Work exchange(int partner, int tag, const void* sent, int64_t sent_bytes, void* received,
                int64_t received_bytes) override {
    const detail::ProfiledCall timed(call_of("MPI_Isend"));
    auto both = std::make_unique<Requests>(mpi_);
    const auto next = [&requests = *both] { return &requests.requests[requests.count++]; };
    Work work(std::move(both));  // first, because it allocates
    mpi_.check(mpi_.irecv(received, static_cast<int>(received_bytes), mpi_.byte, partner, tag, comm_, next()),
               "MPI_Irecv");
    mpi_.check(mpi_.isend(sent, static_cast<int>(sent_bytes), mpi_.byte, partner, tag, comm_, next()), "MPI_Isend");
    return work;
  }
  Work sum(void* data, int64_t count, DType dtype) override {
    const detail::ProfiledCall timed(call_of("MPI_Iallreduce"));
    auto one = std::make_unique<Requests>(mpi_);
    Requests& requests = *one;
    Work work(std::move(one));  // first, because it allocates
    MPI_Datatype const type = dtype == DType::float32 ? mpi_.float32 : mpi_.float64;
    mpi_.check(mpi_.iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), type, mpi_.sum, comm_,
                               &requests.requests[requests.count++]),
               "MPI_Iallreduce");
    return work;
  }
  void broadcast(void* data, int64_t bytes, int source) override {
    const detail::ProfiledCall timed(call_of("MPI_Bcast"));
    mpi_.check(mpi_.bcast(data, static_cast<int>(bytes), mpi_.byte, source, comm_), "MPI_Bcast");
  }
  void all_gather(const void* from, void* to, int64_t bytes) override {
    const int count = static_cast<int>(bytes);
    mpi_.check(mpi_.allgather(from, count, mpi_.byte, to, count, mpi_.byte, comm_), "MPI_Allgather");
  }
  void barrier() override { mpi_.check(mpi_.barrier(comm_), "MPI_Barrier"); }
  bool barrier_within(double seconds) override {
    Requests all(mpi_);
    if (mpi_.ibarrier(end_, &all.requests[all.count++]) != MPI_SUCCESS) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!all.advance(false)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  void abort(int code) override {
    mpi_.abort(mpi_.world, code);
    std::_Exit(code);
  }
  void fail() override {
    has_failed_ = true;
    session_.fail();
  }

 private:
  Session& session_;
  const Mpi& mpi_;
  MPI_Comm comm_{}, end_{};  // end_ is only for barrier_within, which other ranks may never reach
  int rank_ = 0, size_ = 1;
  bool has_failed_ = false;
};

/// The MPI library if the program has loaded it. Otherwise, if a launcher started the program, loads it. Its symbols
/// must be global, because MPI's own plugins look for them there.
void* open_mpi() {
  constexpr int kGlobal = RTLD_NOW | RTLD_GLOBAL;
  void* library = dlopen(LINNET_MPI_NAME, kGlobal | RTLD_NOLOAD);
  if (library != nullptr || !started_by_mpi_launcher()) return library;
  library = dlopen(LINNET_MPI_NAME, kGlobal);
  if (library == nullptr) library = dlopen(LINNET_MPI_PATH, kGlobal);
  if (library != nullptr) return library;
  const char* const cause = dlerror();
  throw IoError(fmt::format("a launcher of MPI started this program, but its library {} cannot be loaded ({}); {}",
                            LINNET_MPI_NAME, cause != nullptr ? cause : "no cause given", remedy()));
}

/// Whether messages are needed: a launcher started the program, or the program has initialised MPI.
bool is_needed(void* library) {
  if (library == nullptr || started_by_mpi_launcher()) return library != nullptr;
  decltype(MPI_Initialized)* const initialized = Symbol(library, "MPI_Initialized");
  int is_initialized = 0;
  initialized(&is_initialized);
  return is_initialized != 0;
}

}  // namespace

std::unique_ptr<detail::Transport> detail::mpi_transport() {
  void* const library = open_mpi();
  if (!is_needed(library)) return nullptr;
  static Session* const session = new Session(library);
  auto transport = std::make_unique<MpiTransport>(*session);
  // If the launcher belongs to another MPI, each process sees a group of one.
  if (transport->size() == 1 && launched_processes() > 1) {
    throw IoError(
        fmt::format("a launcher of MPI started {} processes, but {} sees only one, since it belongs to {} and the "
                    "launcher to another MPI; start with the mpirun of {}, or build linnet with the launcher's MPI",
                    launched_processes(), LINNET_MPI_NAME, kImplementation, kImplementation));
  }
  return transport;
}

std::string describe_mpi() {
  return fmt::format("MPI {}.{} ({}, loaded when a launcher starts the program)", MPI_VERSION, MPI_SUBVERSION,
                     LINNET_MPI_NAME);
}

}  // namespace linnet
