#include <linnet/cuda/device/device.cuh>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include <linnet/core/distributed/local_rank.h>
#include <linnet/core/error.h>
#include <linnet/cuda/device/allocator.cuh>

namespace linnet::cuda {
namespace {

/// An empty kernel. A query for its attributes creates the driver's context, and shows whether this build has code
/// for the GPU.
__global__ void probe() {}

std::string version_text(int version) {  // 13010 is 13.1
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string error_text(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

/// Whether the runtime refuses all further work of the process after this error.
bool is_fatal(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

/// Whether this error means that there is no code for the GPU, or none that its driver accepts.
bool means_no_code(cudaError_t status) {
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled: return true;
    default: return false;
  }
}

/// Throws DeviceError that says why no GPU answers, and what to do.
[[noreturn]] void refuse_device(cudaError_t status) {
  cudaGetLastError();  // clears the error, which a later call would report
  std::string cause = "no NVIDIA GPU answers (" + error_text(status) + ")";
  if (driver_version() == 0) {
    cause = "no NVIDIA driver is installed, or it is not reachable from here";
  } else if (status == cudaErrorInsufficientDriver) {
    cause = "the NVIDIA driver is for CUDA " + version_text(driver_version()) + ", older than this build's " +
            version_text(runtime_version()) + ": update it";
  } else if (const std::optional<int> rank = detail::local_rank(); rank.value_or(0) > 0) {
    cause = "this host has no GPU for its rank " + std::to_string(*rank) + ", counted from 0 (" + error_text(status) +
            "); start as many ranks on a host as it has GPUs";
  }
  throw DeviceError(cause + "; see what nvidia-smi says, or use --device cpu (Device::cpu)");
}

cudaDeviceProp properties() {
  cudaDeviceProp result;
  check(cudaGetDeviceProperties(&result, 0), "reading the properties of the GPU");
  return result;
}

std::string architecture(const cudaDeviceProp& gpu) {
  return "sm_" + std::to_string(gpu.major) + std::to_string(gpu.minor);
}

void check_architecture() {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe);
  if (status == cudaSuccess) return;
  if (!means_no_code(status)) refuse_device(status);  // such as a GPU that another process has reserved or filled
  cudaGetLastError();
  const cudaDeviceProp gpu = properties();
  constexpr int kOldest = CUDART_VERSION >= 13000 ? 75 : 70;  // the oldest architecture of nvcc, or of linnet
  const int number = gpu.major * 10 + gpu.minor;
  const std::string remedy = number < kOldest ? "it is too old for CUDA " + version_text(CUDART_VERSION) +
                                                    ", with which linnet takes GPUs from sm_" +
                                                    std::to_string(kOldest) + " on: use another"
                                              : "configure with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(number);
  throw DeviceError(std::string(gpu.name) + " is " + architecture(gpu) + ", which this build has no code for (" +
                    error_text(status) + "); " + remedy + ", or use --device cpu (Device::cpu)");
}

/// Sets CUDA_VISIBLE_DEVICES so that each rank of a host sees only its own GPU. CUDA reads the variable in its first
/// call. Returns whether it was set.
bool choose_gpu() {
  const std::optional<int> rank = detail::local_rank();
  if (!rank) return false;
  const std::string chosen = detail::visible_gpu(std::getenv("CUDA_VISIBLE_DEVICES"), *rank);
  setenv("CUDA_VISIBLE_DEVICES", chosen.c_str(), 1);
  return true;
}

struct Gpu {
  cudaStream_t stream = nullptr;

  Gpu() {
    const bool has_chosen = choose_gpu();
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) refuse_device(status);
    if (count == 0) refuse_device(cudaErrorNoDevice);
    if (has_chosen && count > 1) {
      throw DeviceError(std::to_string(count) +
                        " GPUs are visible after this rank has chosen one, since something, "
                        "such as MPI, called CUDA before; let the launcher set CUDA_VISIBLE_DEVICES for each rank");
    }
    check_architecture();
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  }
};

/// Never destroyed, because static tensors may outlive our static objects.
const Gpu& gpu() {
  static const Gpu* const instance = new Gpu;
  return *instance;
}

thread_local cudaStream_t stream_of_scope = nullptr;  ///< null without a StreamScope

}  // namespace

void open_device() { gpu(); }

bool is_checking() {
  static const bool checking = is_set("LINNET_CUDA_CHECK");
  return checking;
}

cudaStream_t stream() { return stream_of_scope != nullptr ? stream_of_scope : gpu().stream; }

StreamScope::StreamScope(cudaStream_t stream) { stream_of_scope = stream; }
StreamScope::~StreamScope() { stream_of_scope = nullptr; }

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) refuse_memory(what);
  std::string message = std::string("CUDA failed in ") + what + " (" + error_text(status) + ")";
  if (is_fatal(status)) {
    message += is_checking() ? "; this process cannot use the GPU any more"
                             : ", here or in an op before; set LINNET_CUDA_CHECK=1 to see in which. This process "
                               "cannot use the GPU any more";
  }
  throw DeviceError(message);
}

void check_launch() {
  check(cudaGetLastError(), "launching a kernel");
  if (is_checking()) synchronise("a kernel");
}

void synchronise(const char* what) { check(cudaStreamSynchronize(stream()), what); }

std::string describe_device() {
  const cudaDeviceProp gpu = properties();
  return std::string(gpu.name) + " (" + architecture(gpu) + ", " + std::to_string(gpu.totalGlobalMem >> 30) +
         " GiB, " + std::to_string(gpu.multiProcessorCount) + " multiprocessors), driver for CUDA " +
         version_text(driver_version()) + ", runtime " + version_text(runtime_version());
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

void refuse_dtype(DType dtype) {
  if (dtype == DType::bfloat16) {
    throw DTypeError("bfloat16 is a storage type, with which this does not compute; convert with to(DType::float32)");
  }
  throw DTypeError(std::string("does not take dtype ") + name_of(dtype) + " on the GPU; convert with to(DType)");
}

}  // namespace linnet::cuda
