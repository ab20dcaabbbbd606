#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>
#include <linnet/core/dtype.h>

/// The GPU that linnet uses, and the stream of all work on tensors. The GPU is device 0 of those in
/// CUDA_VISIBLE_DEVICES. The stream keeps kernels, copies and reuse of memory in the order of the calls. Two things
/// have streams of their own, for which the first one waits: copies of batches to the GPU (transfer.cu), and messages
/// to other ranks (distributed/nccl.cpp). A program that uses CUDA itself must keep device 0 current in threads that
/// call linnet.

namespace linnet::cuda {

/// Opens the GPU on first use. Throws DeviceError if there is none, or if this build has no code for it. The process
/// can go on without the GPU, and a later call tries again.
void open_device();

/// The stream into which this thread launches kernels.
cudaStream_t stream();

/// A guard: while it lives, this thread launches kernels into another stream. Their memory must not be freed
/// meanwhile, because the allocator reuses memory in the order of the common stream.
class StreamScope {
 public:
  explicit StreamScope(cudaStream_t stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

/// Throws DeviceError unless `status` is cudaSuccess, and MemoryError for cudaErrorMemoryAllocation; see with_room().
/// `what` says what was tried: "copy to the GPU".
void check(cudaError_t status, const char* what);

/// To be called after each kernel launch. Throws DeviceError if the driver refused the launch. If a kernel fails
/// while it runs, a later call reports the error. With the environment variable LINNET_CUDA_CHECK=1, this function
/// waits for the kernel, so that the error names the op that caused it.
void check_launch();

/// Whether LINNET_CUDA_CHECK is set to anything but 0.
bool is_checking();

/// Waits for all work so far. Throws DeviceError when any of it failed.
void synchronise(const char* what);

/// Name, architecture and memory of the GPU, and the versions of driver and runtime.
std::string describe_device();

/// Whether an environment variable is set to anything but 0.
bool is_set(const char* variable);

/// Throws DTypeError. All kernels refuse dtypes through this function.
[[noreturn]] void refuse_dtype(DType dtype);

}  // namespace linnet::cuda
