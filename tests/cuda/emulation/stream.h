#pragma once

#include <functional>

#include <cuda_runtime_api.h>

namespace linnet::emulation {

/// Does `work` now or, while the stream is captured, in each launch of the graph.
void submit(cudaStream_t stream, std::function<void()> work);

/// Keeps an error for cudaGetLastError, as the runtime does, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace linnet::emulation
