#include <linnet/cuda/device/recording.cuh>

#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/device/transfer.cuh>

namespace linnet::cuda {
namespace {

/// Exclusive for the thread that records, shared for the others; see outside_of_recordings().
std::shared_mutex recordings;

class Graph : public RecordedWork {
 public:
  static thread_local Graph* current;  ///< the graph that this thread records, or null

  ~Graph() override {
    if (executable_ != nullptr) {
      const auto lock = outside_of_recordings();
      cudaStreamSynchronize(stream());  // waits for replays
      cudaGraphExecDestroy(executable_);
    }
    for (void* constant : constants_) cudaFreeHost(constant);
    let_go(hold_);
  }

  /// Captures the kernels that `work` launches. If `work` throws, the capture ends and the stream is usable again.
  void capture(const std::function<void()>& work) {
    const std::lock_guard<std::shared_mutex> lock(recordings);
    // Relaxed mode, because a tensor may need memory from the driver during the capture.
    check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed), "beginning a recording");
    begin_hold();
    current = this;
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    current = nullptr;
    hold_ = end_hold();
    cudaGraph_t captured = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream(), &captured);
    const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(captured, cudaGraphDestroy);
    if (error) {
      cudaGetLastError();  // clears the error, which a later call would report
      std::rethrow_exception(error);
    }
    check(status, "recording");
    with_room([&] { check(cudaGraphInstantiate(&executable_, captured, 0), "making a graph of a recording"); });
  }

  const void* keep(const void* host, int64_t bytes) {
    void* copy = nullptr;
    with_room(
        [&] { check(cudaMallocHost(&copy, static_cast<size_t>(bytes)), "asking for pinned memory for a constant"); });
    constants_.push_back(copy);
    return std::memcpy(copy, host, static_cast<size_t>(bytes));
  }

  const uint64_t* draws() const { return draws_.data(); }

  void replay(uint64_t draws) override {
    from_host(draws_.data(), &draws, sizeof(draws));
    with_room([&] { check(cudaGraphLaunch(executable_, stream()), "launching a recording"); });
  }

 private:
  const Scratch<uint64_t> draws_{1};
  std::vector<void*> constants_;  ///< in pinned memory
  BlockCache::Hold hold_;
  cudaGraphExec_t executable_ = nullptr;
};

thread_local Graph* Graph::current = nullptr;

}  // namespace

std::unique_ptr<RecordedWork> record(const std::function<void()>& work) {
  if (is_checking()) return nullptr;  // the checking mode waits for each kernel
  auto graph = std::make_unique<Graph>();
  graph->capture(work);
  return graph;
}

bool is_recording() { return Graph::current != nullptr; }

std::shared_lock<std::shared_mutex> outside_of_recordings() {
  return is_recording() ? std::shared_lock<std::shared_mutex>() : std::shared_lock<std::shared_mutex>(recordings);
}

const void* kept_for_replays(const void* host, int64_t bytes) { return Graph::current->keep(host, bytes); }

LiveKey::LiveKey(RandomKey key) : key_(key), draws_(Graph::current == nullptr ? nullptr : Graph::current->draws()) {}

}  // namespace linnet::cuda
