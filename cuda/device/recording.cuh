#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <shared_mutex>

#include <linnet/core/device/backend.h>

/// Kernels recorded as a CUDA graph, which a replay launches in one call of the driver.

namespace linnet::cuda {

/// Backend::record.
std::unique_ptr<RecordedWork> record(const std::function<void()>& work);

/// Whether this thread records.
bool is_recording();

/// A lock for threads that allocate GPU memory, copy to or from the GPU, or wait for it. Taking it waits while
/// another thread records, because such work would become part of the recording.
std::shared_lock<std::shared_mutex> outside_of_recordings();

/// In a recording: a copy of `bytes` bytes of host memory. The replays read the copy.
const void* kept_for_replays(const void* host, int64_t bytes);

/// A random key as a kernel argument. In a recording, every replay advances its stream, by a count in GPU memory.
class LiveKey {
 public:
  LiveKey() = default;
  LiveKey(RandomKey key);  // NOLINT(google-explicit-constructor): a LiveKey is a RandomKey

  __device__ operator RandomKey() const {
    return draws_ == nullptr ? key_ : RandomKey{key_.seed, key_.stream + *draws_};
  }

 private:
  RandomKey key_;
  const uint64_t* draws_;  ///< the number of draws since the recording; null outside of one
};

}  // namespace linnet::cuda
