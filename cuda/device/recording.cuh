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

/// A lock for threads that allocate on the GPU, copy to or from it, or wait for it. It waits while another thread
/// records, because such work would become part of the recording.
std::shared_lock<std::shared_mutex> outside_of_recordings();

/// In a recording: a copy of `bytes` of host memory that the replays read.
const void* kept_for_replays(const void* host, int64_t bytes);

/// A random key as kernels take it. In a recording its stream moves on with every replay, by a count in GPU memory.
class LiveKey {
 public:
  LiveKey() = default;
  LiveKey(RandomKey key);  // NOLINT(google-explicit-constructor): a key is what it stands for

  __device__ operator RandomKey() const {
    return draws_ == nullptr ? key_ : RandomKey{key_.seed, key_.stream + *draws_};
  }

 private:
  RandomKey key_;
  const uint64_t* draws_;  ///< draws since the recording; null outside of one
};

}  // namespace linnet::cuda
