#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace linnet::emulation {

/// Does `work` now, or later if a test has delayed the stream. During a capture, each launch of the graph does it.
void submit(cudaStream_t stream, std::function<void()> work);

/// Waits for all work of all streams.
void finish_all();

/// Keeps an error for cudaGetLastError, as the runtime does, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace linnet::emulation
