#include "stream.h"

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "control.h"

/// Streams, events and graphs. All work is done at once, in the order in which it is submitted, except in a delayed
/// stream and during a capture. A graph keeps copies of the launches.

using Work = std::vector<std::function<void()>>;

struct CUstream_st {
  bool captures = false, is_late = false, is_impatient = false;
  Work captured;
  std::deque<std::function<void()>> queue;
};
struct CUevent_st {
  cudaStream_t stream = nullptr;
  std::shared_ptr<bool> reached;  ///< for the place where it was recorded last
};
struct CUgraph_st {
  Work work;
};
struct CUgraphExec_st {
  Work work;
};

namespace linnet::emulation {
namespace {

/// One lock for all queues, since work in one stream may wait for another.
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

std::vector<cudaStream_t> streams;
bool is_host_impatient = false;

/// Does the stream's work until `wanted` is reached.
template <class Wanted>
void run(cudaStream_t stream, const Wanted& wanted) {
  while (!stream->queue.empty() && !wanted()) {
    const std::function<void()> work = std::move(stream->queue.front());
    stream->queue.pop_front();
    work();
  }
}

void finish(cudaStream_t stream) {
  run(stream, [] { return false; });
}

/// Work that waits for the event where it is recorded now.
std::function<void()> wait_for(cudaEvent_t event) {
  return [stream = event->stream, reached = event->reached] {
    if (reached) run(stream, [&] { return *reached; });
  };
}

bool& impatience_of(int stream) {
  return stream == kHost ? is_host_impatient : streams.at(static_cast<size_t>(stream))->is_impatient;
}

}  // namespace

void submit(cudaStream_t stream, std::function<void()> work) {
  const Lock lock(mutex);
  if (stream->captures) return stream->captured.push_back(std::move(work));
  stream->queue.push_back(std::move(work));
  if (!stream->is_late) finish(stream);
}

void finish_all() {
  const Lock lock(mutex);
  for (const cudaStream_t stream : streams) finish(stream);
}

Late::Late(int stream) : stream_(streams.at(static_cast<size_t>(stream))) { stream_->is_late = true; }
Late::~Late() {
  finish_all();
  stream_->is_late = false;
}

int streams_made() {
  const Lock lock(mutex);
  return static_cast<int>(streams.size());
}

size_t work_left(int stream) { return streams.at(static_cast<size_t>(stream))->queue.size(); }

Impatient::Impatient(int stream) { impatience_of(stream) = true; }
Impatient::~Impatient() {
  for (const cudaStream_t stream : streams) stream->is_impatient = false;
  is_host_impatient = false;
}

}  // namespace linnet::emulation

using namespace linnet::emulation;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = error_told()) return error;
  const Lock lock(mutex);
  *stream = streams.emplace_back(new CUstream_st);
  return cudaSuccess;
}

/// The stream keeps its number among the others, and the events that were recorded in it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->captures) return report(cudaErrorStreamCaptureUnsupported);
  const Lock lock(mutex);
  finish(stream);
  return error_told();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = error_told()) return error;
  const Lock lock(mutex);
  if (stream->captures && event->stream != nullptr && !event->stream->captures) {
    return report(cudaErrorStreamCaptureIsolation);
  }
  if (!stream->is_impatient) submit(stream, wait_for(event));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex);
  event->stream = stream;
  event->reached = std::make_shared<bool>(false);
  submit(stream, [reached = event->reached] { *reached = true; });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(mutex);
  return !event->reached || *event->reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex);
  if (!is_host_impatient) wait_for(event)();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->captures) return report(cudaErrorIllegalState);
  stream->captures = true;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->captures) return report(cudaErrorIllegalState);
  stream->captures = false;
  Work captured = std::exchange(stream->captured, {});
  *graph = nullptr;
  if (const cudaError_t error = error_told()) return error;
  *graph = new CUgraph_st{std::move(captured)};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = error_told()) return error;
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (const cudaError_t error = error_told()) return error;
  for (const auto& work : executable->work) submit(stream, work);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
