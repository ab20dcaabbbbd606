#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>
#include <linnet/core/dtype.h>

/// The GPU that linnet uses, and the stream of all work on tensors. The GPU is device 0 of those that
/// CUDA_VISIBLE_DEVICES names. One stream keeps kernels, copies and reuse of memory in the order of the calls. Two
/// things have streams of their own, which the first one waits for: batches that cross to the GPU (transfer.cu), and
/// messages to other ranks (distributed/nccl.cpp). A program that uses CUDA itself must keep device 0 current in
/// threads that call linnet.

namespace linnet::cuda {

/// Opens the GPU on first use. Throws DeviceError if there is none, or none that this build has code for. The process
/// may go on without it, and a later call tries again.
void open_device();

/// Where kernels of this thread go.
cudaStream_t stream();

/// While one exists, kernels of this thread go into another stream. Memory that dies meanwhile is not safe, since it
/// is reused in the order of the common stream.
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

/// To be called after each kernel launch. Throws DeviceError if the launch was refused. A later call reports a kernel
/// that fails while it runs, unless the environment variable LINNET_CUDA_CHECK=1 is set: then this waits for the
/// kernel, so that the error names the op that caused it.
void check_launch();

/// Whether LINNET_CUDA_CHECK is set, to anything but 0.
bool is_checking();

/// Waits for all work so far. Throws DeviceError when any of it failed.
void synchronise(const char* what);

/// Name, architecture and memory of the GPU, and the versions of driver and runtime.
std::string describe_device();

/// Whether an environment variable is set, and not to 0.
bool is_set(const char* variable);

/// Throws DTypeError. All kernels refuse dtypes through this function.
[[noreturn]] void refuse_dtype(DType dtype);

}  // namespace linnet::cuda
