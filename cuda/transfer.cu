#include <linnet/cuda/transfer.cuh>

#include <cstring>
#include <mutex>

#include <linnet/core/error.h>
#include <linnet/cuda/device.cuh>
#include <linnet/cuda/recording.cuh>

namespace linnet::cuda {
namespace {

/// Pinned memory that a copy is taken from, and the event that says when it is free again.
struct Slot {
  void* memory = nullptr;
  cudaEvent_t copied = nullptr;
};

/// A few slots, used in turn: the host fills one while the GPU still reads the others. What is copied to the GPU
/// in training, a batch or an index, is small; anything larger is copied from where it lies, and waited for.
class Staging {
 public:
  static constexpr int64_t kBytes = int64_t{4} << 20;

  void copy(void* device, const void* host, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % kSlots;
    if (slot.memory == nullptr) {
      check(cudaMallocHost(&slot.memory, static_cast<size_t>(kBytes)), "taking pinned memory");
    }
    if (slot.copied == nullptr) {
      check(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "making an event");
    }
    check(cudaEventSynchronize(slot.copied), "waiting for a copy to the GPU");
    std::memcpy(slot.memory, host, static_cast<size_t>(bytes));
    check(cudaMemcpyAsync(device, slot.memory, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()),
          "a copy to the GPU");
    check(cudaEventRecord(slot.copied, stream()), "a copy to the GPU");
  }

 private:
  static constexpr int kSlots = 4;
  std::mutex mutex_;
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
  if (bytes <= Staging::kBytes) return staging().copy(device, host, bytes);
  check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()),
        "a copy to the GPU");
  synchronise("a copy to the GPU");
}

void to_host(void* host, const void* device, int64_t bytes) {
  if (bytes == 0) return;
  if (is_recording()) {
    throw DeviceError(
        "a recorded function cannot read numbers of the device; return the tensor, and read it after the call");
  }
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "a copy from the GPU");
  synchronise("a copy from the GPU");
}

}  // namespace linnet::cuda
