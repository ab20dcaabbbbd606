#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>
#include <linnet/core/dtype.h>

/// The GPU that linnet uses, device 0 of those that CUDA_VISIBLE_DEVICES leaves, and the stream that all work on
/// tensors goes to. One stream keeps kernels, copies and reuse of memory in the order of the calls that asked for
/// them. (Batches cross to the GPU in another, which this one waits for: see transfer.cu.) A program that uses CUDA
/// itself leaves device 0 the current one of threads that call linnet.

namespace linnet::cuda {

/// Opens the GPU on first use. Throws DeviceError when none answers, or none that this build has code for; the
/// process goes on without it, and a later call tries again.
void open_device();

cudaStream_t stream();

/// Throws DeviceError unless `status` is cudaSuccess, and MemoryError where it says that there was no room; see
/// with_room(). `what` says what was tried: "copy to the GPU".
void check(cudaError_t status, const char* what);

/// To be called after each kernel launch: throws DeviceError when it was refused. A kernel that fails while it
/// runs is noticed by a later call, unless the environment variable LINNET_CUDA_CHECK=1 is set: then this waits
/// for the kernel, so that the error names the op that caused it.
void check_launch();

/// Whether that is set.
bool is_checking();

/// Waits for all work so far. Throws DeviceError when any of it failed.
void synchronise(const char* what);

/// Name, architecture and memory of the GPU, and the versions of driver and runtime.
std::string describe_device();

/// Whether an environment variable is set, and not to 0.
bool is_set(const char* variable);

/// Throws DTypeError: the one place where kernels refuse what they do not take.
[[noreturn]] void refuse_dtype(DType dtype);

}  // namespace linnet::cuda
