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

/// What a copy goes through, and the events that say when it is free again.
struct Slot {
  void* pinned = nullptr;       ///< host memory that the GPU reads by itself
  void* landing = nullptr;      ///< memory of the GPU, where there is room for it
  cudaEvent_t sent = nullptr;   ///< `pinned` has been read
  cudaEvent_t taken = nullptr;  ///< `landing` has been read
};

/// A few slots, used in turn: the host fills one while the GPU still reads the others. What is larger than a slot
/// crosses in pieces.
///
/// A batch crosses in a stream of its own, beside the kernels launched before. It cannot go straight to the tensor's
/// block, which they may still use for what it held then (see allocator.cuh). It goes to a place that nobody else
/// has, and from there to the block by a copy within the GPU, a small part of the time, in the stream of the kernels.
class Staging {
 public:
  void copy(void* device, const void* host, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kBytes) {
      copy_piece(static_cast<char*>(device) + done, static_cast<const char*>(host) + done,
                 std::min(bytes - done, kBytes));
    }
  }

 private:
  static constexpr int64_t kBytes = int64_t{4} << 20;  ///< of a slot
  static constexpr int kSlots = 4;
  /// Up to here a copy takes about as long as its launch, so that one is better than two.
  static constexpr int64_t kShort = int64_t{64} << 10;

  void copy_piece(void* device, const void* host, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % kSlots;
    prepare(slot, bytes);
    const auto size = static_cast<size_t>(bytes);
    check(cudaEventSynchronize(slot.sent), "waiting for a copy to the GPU");
    std::memcpy(slot.pinned, host, size);
    if (bytes <= kShort || slot.landing == nullptr) return send(device, slot, size, stream());
    check(cudaStreamWaitEvent(copies_, slot.taken, 0), "waiting for a copy to the GPU");
    send(slot.landing, slot, size, copies_);
    check(cudaStreamWaitEvent(stream(), slot.sent, 0), "waiting for a copy to the GPU");
    check(cudaMemcpyAsync(device, slot.landing, size, cudaMemcpyDeviceToDevice, stream()), "a copy on the GPU");
    check(cudaEventRecord(slot.taken, stream()), "a copy on the GPU");
  }

  void prepare(Slot& slot, int64_t bytes) {
    if (slot.pinned == nullptr) {
      with_room([&] {
        check(cudaMallocHost(&slot.pinned, static_cast<size_t>(kBytes)), "asking for 4 MiB of pinned memory");
      });
    }
    for (cudaEvent_t* event : {&slot.sent, &slot.taken}) {
      if (*event == nullptr) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
    }
    if (copies_ == nullptr) check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "making a stream");
    if (bytes > kShort && slot.landing == nullptr &&
        cudaMalloc(&slot.landing, static_cast<size_t>(kBytes)) != cudaSuccess) {
      cudaGetLastError();  // so that it is not found again later
      slot.landing = nullptr;
    }
  }

  void send(void* device, const Slot& slot, size_t bytes, cudaStream_t way) {
    check(cudaMemcpyAsync(device, slot.pinned, bytes, cudaMemcpyHostToDevice, way), "a copy to the GPU");
    check(cudaEventRecord(slot.sent, way), "a copy to the GPU");
  }

  std::mutex mutex_;
  cudaStream_t copies_ = nullptr;
  Slot slots_[kSlots];
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
        "a recorded function cannot read numbers of the device; return the tensor, and read it after the call");
  }
  const auto lock = outside_of_recordings();
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "a copy from the GPU");
  synchronise("a copy from the GPU");
}

}  // namespace linnet::cuda
