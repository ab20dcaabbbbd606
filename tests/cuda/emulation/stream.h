#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace linnet::emulation {

/// Does `work` now; later where a test has made the stream late; while it is captured, in each launch of the graph.
void submit(cudaStream_t stream, std::function<void()> work);

/// Waits for all work of all streams.
void finish_all();

/// Keeps an error for cudaGetLastError, as the runtime does, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace linnet::emulation
