#include <linnet/cuda/device/transfer.cuh>

#include <algorithm>
#include <cstring>
#include <mutex>

#include <linnet/core/error.h>
#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/recording.cuh>

namespace linnet::cuda {
namespace {

/// Memory through which a copy goes, and the events after which it may be reused.
struct StagingBuffer {
  void* pinned = nullptr;       ///< host memory that the GPU reads by itself
  void* landing = nullptr;      ///< GPU memory; null if none could be allocated
  cudaEvent_t sent = nullptr;   ///< `pinned` has been read
  cudaEvent_t taken = nullptr;  ///< `landing` has been read
};

/// Copies to the GPU through a few buffers in turn: the host fills one while the GPU still reads the others. A larger
/// copy goes buffer by buffer.
///
/// A batch is copied in a second stream, while the kernels that were launched before run. It cannot go straight to
/// the tensor's block, because those kernels may still read the block's earlier content (see allocator.cuh). So it
/// goes to a landing buffer. From there a copy within the GPU, in the kernels' stream, moves it to the block, which
/// takes a small fraction of the time.
class Staging {
 public:
  void copy(void* device, const void* host, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kBytes) {
      copy_buffer(static_cast<char*>(device) + done, static_cast<const char*>(host) + done,
                  std::min(bytes - done, kBytes));
    }
  }

 private:
  static constexpr int64_t kBytes = int64_t{4} << 20;  ///< the size of a buffer
  static constexpr int kBuffers = 4;
  /// A copy of up to this size takes about as long as its launch, so that one copy is faster than two.
  static constexpr int64_t kShort = int64_t{64} << 10;

  void copy_buffer(void* device, const void* host, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    StagingBuffer& buffer = buffers_[next_];
    next_ = (next_ + 1) % kBuffers;
    prepare(buffer, bytes);
    const auto size = static_cast<size_t>(bytes);
    check(cudaEventSynchronize(buffer.sent), "waiting for a copy to the GPU");
    std::memcpy(buffer.pinned, host, size);
    if (bytes <= kShort || buffer.landing == nullptr) return send(device, buffer, size, stream());
    check(cudaStreamWaitEvent(copies_, buffer.taken, 0), "waiting for a copy to the GPU");
    send(buffer.landing, buffer, size, copies_);
    check(cudaStreamWaitEvent(stream(), buffer.sent, 0), "waiting for a copy to the GPU");
    check(cudaMemcpyAsync(device, buffer.landing, size, cudaMemcpyDeviceToDevice, stream()), "a copy on the GPU");
    check(cudaEventRecord(buffer.taken, stream()), "a copy on the GPU");
  }

  void prepare(StagingBuffer& buffer, int64_t bytes) {
    if (buffer.pinned == nullptr) {
      with_room([&] {
        check(cudaMallocHost(&buffer.pinned, static_cast<size_t>(kBytes)), "asking for 4 MiB of pinned memory");
      });
    }
    for (cudaEvent_t* event : {&buffer.sent, &buffer.taken}) {
      if (*event == nullptr) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
    }
    if (copies_ == nullptr) check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "making a stream");
    if (bytes > kShort && buffer.landing == nullptr &&
        cudaMalloc(&buffer.landing, static_cast<size_t>(kBytes)) != cudaSuccess) {
      cudaGetLastError();  // clears the error, which a later call would report
      buffer.landing = nullptr;
    }
  }

  void send(void* device, const StagingBuffer& buffer, size_t bytes, cudaStream_t way) {
    check(cudaMemcpyAsync(device, buffer.pinned, bytes, cudaMemcpyHostToDevice, way), "a copy to the GPU");
    check(cudaEventRecord(buffer.sent, way), "a copy to the GPU");
  }

  std::mutex mutex_;
  cudaStream_t copies_ = nullptr;
  StagingBuffer buffers_[kBuffers];
  int next_ = 0;
};

/// Never destroyed: the GPU may still read from it when the process ends.
Staging& staging() {
  static Staging* const instance = new Staging;
  return *instance;
}

}  // namespace

void from_host(void* device, const void* host, int64_t bytes) {
  if (bytes == 0) return;
  if (is_recording()) {
    host = kept_for_replays(host, bytes);
    check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()),
          "a copy to the GPU");
    return;
  }
  const auto lock = outside_of_recordings();
  staging().copy(device, host, bytes);
}

void to_host(void* host, const void* device, int64_t bytes) {
  if (bytes == 0) return;
  if (is_recording()) {
    throw DeviceError(
        "a recorded function cannot read from the device; return the tensor, and read it after the call");
  }
  const auto lock = outside_of_recordings();
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "a copy from the GPU");
  synchronise("a copy from the GPU");
}

}  // namespace linnet::cuda
