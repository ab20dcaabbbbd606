#include <linnet/cuda/distributed/nccl.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <linnet/core/distributed/transport.h>
#include <linnet/core/error.h>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/recording.cuh>

/// Messages between the GPUs of ranks, by NCCL. They have a stream of their own, so that gradients are sent while the
/// kernels of backward run. All ranks put the same messages into it in the same order, as NCCL requires.

namespace linnet {
namespace {

/// A function of the library.
class NcclFunction {
 public:
  NcclFunction(void* library, const char* name) : address_(dlsym(library, name)) {
    if (address_ != nullptr) return;
    throw DeviceError(fmt::format("{} has no {}; install a newer NCCL", LINNET_NCCL_NAME, name));
  }
  template <class Function>
  operator Function*() const {  // NOLINT(google-explicit-constructor): to the type of the initialised variable
    return reinterpret_cast<Function*>(address_);
  }

 private:
  void* address_;
};

/// The library is loaded when it is needed. Linking it would make every program start more slowly.
void* open_library() {
  void* const library = dlopen(LINNET_NCCL_NAME, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const cause = dlerror();
  throw DeviceError(fmt::format("NCCL cannot be loaded ({}); install it, or name the folder of {} in LD_LIBRARY_PATH",
                                cause != nullptr ? cause : "no cause given", LINNET_NCCL_NAME));
}

/// The functions of NCCL that are used here.
struct Nccl {
  void* library = open_library();
  decltype(ncclGetVersion)* get_version = NcclFunction(library, "ncclGetVersion");
  decltype(ncclGetErrorString)* get_error_string = NcclFunction(library, "ncclGetErrorString");
  decltype(ncclGetUniqueId)* get_unique_id = NcclFunction(library, "ncclGetUniqueId");
  decltype(ncclCommInitRank)* comm_init_rank = NcclFunction(library, "ncclCommInitRank");
  decltype(ncclCommDestroy)* comm_destroy = NcclFunction(library, "ncclCommDestroy");
  decltype(ncclCommAbort)* comm_abort = NcclFunction(library, "ncclCommAbort");
  decltype(ncclGroupStart)* group_start = NcclFunction(library, "ncclGroupStart");
  decltype(ncclGroupEnd)* group_end = NcclFunction(library, "ncclGroupEnd");
  decltype(ncclSend)* send = NcclFunction(library, "ncclSend");
  decltype(ncclRecv)* recv = NcclFunction(library, "ncclRecv");
  decltype(ncclAllReduce)* all_reduce = NcclFunction(library, "ncclAllReduce");
  decltype(ncclBroadcast)* broadcast = NcclFunction(library, "ncclBroadcast");

  void check(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess) return;
    throw DeviceError(
        fmt::format("NCCL failed in {} ({}); NCCL_DEBUG=WARN makes it say why", what, get_error_string(result)));
  }
  std::string version() const {
    int number = 0;
    check(get_version(&number), "asking for its version");
    return fmt::format("NCCL {}.{}.{}", number / 10'000, number / 100 % 100, number % 100);
  }
};

const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

/// A point in a stream.
class Event {
 public:
  Event() { cuda::check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { cuda::check(cudaEventRecord(event_, stream), "a message between GPUs"); }
  /// Makes work that is launched into `stream` from now on wait for the event.
  [[nodiscard]] cudaError_t hold(cudaStream_t stream) { return cudaStreamWaitEvent(stream, event_, 0); }
  [[nodiscard]] cudaError_t wait() const { return cudaEventSynchronize(event_); }
  bool is_reached() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) cuda::check(status, "a message between GPUs");
    return status == cudaSuccess;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Messages that are put into their stream. The host does not wait for them: a wait only holds back kernels that are
/// launched later.
class InStream : public Work::Steps {
 public:
  explicit InStream(std::unique_ptr<Work::Steps> steps) : steps_(std::move(steps)) {}
  /// Later kernels must wait for the messages, because they reuse the memory of the steps. If the GPU has failed, it
  /// runs no kernels, so the error is ignored.
  ~InStream() override {
    if (!is_done_ && hold_kernels() != cudaSuccess) cudaGetLastError();
  }
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

  /// Puts the messages into `stream`; they wait for the kernels that were launched before.
  void begin(cudaStream_t stream) {
    const auto lock = cuda::outside_of_recordings();
    Event begin;
    begin.record(cuda::stream());
    cuda::check(begin.hold(stream), "a message between GPUs");
    try {
      const cuda::StreamScope scope(stream);
      steps_->advance(true);
    } catch (...) {
      end_.record(stream);  // the messages before the one that failed are running
      throw;
    }
    end_.record(stream);
  }

  bool advance(bool wait) override {
    if (wait) cuda::check(hold_kernels(), "a message between GPUs");
    is_done_ = wait || end_.is_reached();
    return is_done_;
  }

 private:
  /// A recording refuses to wait for work outside of it, so there the host waits.
  cudaError_t hold_kernels() {
    if (cuda::is_recording()) return end_.wait();
    const auto lock = cuda::outside_of_recordings();
    return end_.hold(cuda::stream());
  }

  std::unique_ptr<Work::Steps> steps_;
  Event end_;
  bool is_done_ = false;
};

class NcclMessages : public detail::Messages {
 public:
  NcclMessages(ncclComm_t comm, int rank, int size) : comm_(comm), rank_(rank), size_(size) {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }
  ~NcclMessages() override {
    if (has_failed_) return;  // destroying the communicator would wait for the other ranks
    cudaStreamSynchronize(stream_);
    nccl().comm_destroy(comm_);
    cudaStreamDestroy(stream_);
  }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Work exchange(int partner, int /*tag: messages keep their order*/, const void* sent, int64_t sent_bytes,
                void* received, int64_t received_bytes) override {
    const auto count = [](int64_t bytes) { return static_cast<size_t>(bytes); };
    nccl().check(nccl().group_start(), "an exchange");
    const ncclResult_t results[] = {
        nccl().send(sent, count(sent_bytes), ncclInt8, partner, comm_, stream_),
        nccl().recv(received, count(received_bytes), ncclInt8, partner, comm_, stream_),
        nccl().group_end()};  // in any case, because an open group would hold back all later messages
    for (const ncclResult_t result : results) nccl().check(result, "an exchange");
    return {};
  }
  Work sum(void* data, int64_t count, DType dtype) override {
    const ncclDataType_t type = dtype == DType::float32 ? ncclFloat32 : ncclFloat64;
    nccl().check(nccl().all_reduce(data, data, static_cast<size_t>(count), type, ncclSum, comm_, stream_), "a sum");
    return {};
  }
  void broadcast(void* data, int64_t bytes, int source) override {
    nccl().check(nccl().broadcast(data, data, static_cast<size_t>(bytes), ncclInt8, source, comm_, stream_),
                 "a broadcast");
  }
  Work start(std::unique_ptr<Work::Steps> steps) override {
    if (cuda::is_recording()) {
      throw DeviceError("a recorded function cannot send tensors to other ranks; do so before or after its call");
    }
    auto work = std::make_unique<InStream>(std::move(steps));
    work->begin(stream_);
    return Work(std::move(work));
  }
  void fail() override { has_failed_ = true; }

 private:
  ncclComm_t comm_;
  cudaStream_t stream_ = nullptr;
  int rank_, size_;
  bool has_failed_ = false;
};

/// Calls `step` on all ranks, and returns on all ranks the message of the first rank that fails; empty if none fails.
template <class Step>
std::string failure_of_ranks(ProcessGroup& group, const Step& step) {
  std::string own;
  try {
    step();
  } catch (const Error& error) {  // memory of the GPU may be lacking too
    own = error.what();
  }
  for (const std::string& text : group.all_gather(own)) {
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace

detail::GpuMessages detail::gpu_messages(ProcessGroup& group) {
  ncclUniqueId id{};
  std::string version;
  std::string failure = failure_of_ranks(group, [&] {
    cuda::open_device();
    version = nccl().version();
    if (group.rank() == 0) nccl().check(nccl().get_unique_id(&id), "beginning");
  });
  if (!failure.empty()) return {nullptr, failure};
  const std::string of_first = group.all_gather(std::string_view(id.internal, sizeof id.internal)).front();
  of_first.copy(id.internal, sizeof id.internal);
  ncclComm_t comm = nullptr;
  std::unique_ptr<NcclMessages> messages;
  failure = failure_of_ranks(group, [&] {  // fails, for example, if two ranks have the same GPU
    nccl().check(nccl().comm_init_rank(&comm, group.world_size(), id, group.rank()), "connecting the ranks");
    messages = std::make_unique<NcclMessages>(comm, group.rank(), group.world_size());
  });
  if (failure.empty()) return {std::move(messages), version};
  if (messages) messages->fail();
  if (comm != nullptr) nccl().comm_abort(comm);
  return {nullptr, failure};
}

}  // namespace linnet
