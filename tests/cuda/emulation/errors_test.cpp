#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <cublas_v2.h>
#include <doctest/doctest.h>
#include <linnet/core/autograd/recording.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/matmul/matmul.h>

#include "control.h"
#include "tests/support/child_program.h"
#include "tests/support/gpu.h"
#include "tests/support/values.h"

/// The messages when CUDA or cuBLAS fails, and that the process can continue.

namespace linnet::emulation {
namespace {

constexpr const char* kAdvice = " free; use a smaller batch or context, or free tensors first";

/// The message of the exception of type E that `f` throws.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& message, const std::string& words) {
  CAPTURE(message);
  CAPTURE(words);
  const bool found = message.find(words) != std::string::npos;
  CHECK(found);
  return found;
}

Tensor numbers() { return tensor({1, 2, 3, 4}).reshape({2, 2}); }

/// Computes a product on the GPU. Whether it is equal to the CPU's.
bool multiplies() {
  const Tensor x = numbers();
  return matmul(x.to(Device::cuda), x.to(Device::cuda)).to_vector<double>() == matmul(x, x).to_vector<double>();
}

std::string opening_says() {
  return message_of<DeviceError>([] { backend(Device::cuda); });
}

/// Runs a test case that is otherwise skipped in a new process, where nothing of the GPU has been opened.
void run_alone(const std::string& name, const char* checking = "0") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const test::Ended ended = test::run_program("/usr/bin/env", {std::string("LINNET_CUDA_CHECK=") + checking, self,
                                                               "--no-skip", "--no-colors", "--test-case=" + name});
  CHECK_MESSAGE(ended.code == 0, ended.out);
  CHECK_MESSAGE(ended.out.find(" 1 passed | 0 failed") != std::string::npos, ended.out);
}

}  // namespace

TEST_CASE("gpu: emulation: why a GPU does not open is said, and the next attempt may do") {
  run_alone("alone: a GPU that does not open");
}

TEST_CASE("gpu: emulation: what is made at first use finds no memory, gets what was kept, or says so") {
  run_alone("alone: no memory for what is made at first use");
}

TEST_CASE("gpu: emulation: a kernel that fails is reported at its op, or where it is waited for") {
  run_alone("alone: a kernel that fails");
  run_alone("alone: a kernel that fails in the checking mode", "1");
}

TEST_CASE("alone: a GPU that does not open" * doctest::skip()) {
  const std::string end = "; see what nvidia-smi says, or use --device cpu (Device::cpu)";
  properties().driver = 0;
  fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  contains(opening_says(), "no NVIDIA driver is installed, or it is not reachable from here" + end);
  properties().driver = 11080;
  fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  contains(opening_says(), "the NVIDIA driver is for CUDA 11.8, older than this build's ");
  fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  contains(opening_says(), ": update it" + end);
  properties().driver = 13000;
  fail_next("cudaGetDeviceCount", cudaErrorNoDevice);
  contains(opening_says(), "no NVIDIA GPU answers (an error: emulated)" + end);

  properties().devices = 2;
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  contains(opening_says(),
           "2 GPUs are visible after this rank has chosen one, since something, such as MPI, called "
           "CUDA before; let the launcher set CUDA_VISIBLE_DEVICES for each rank");
  ::unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
  properties().devices = 1;

  properties().major = 12;
  fail_next("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
  contains(opening_says(),
           "emulated GPU is sm_120, which this build has no code for (an error: emulated); "
           "configure with -DCMAKE_CUDA_ARCHITECTURES=120, or use --device cpu (Device::cpu)");
  properties().major = 6;
  fail_next("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
  contains(opening_says(),
           "emulated GPU is sm_60, which this build has no code for (an error: emulated); it is too "
           "old for CUDA ");
  fail_next("cudaFuncGetAttributes", cudaErrorDevicesUnavailable);
  contains(opening_says(), "no NVIDIA GPU answers (an error: emulated)" + end);
  properties().major = 9;
  CHECK(add(numbers(), 1).numel() == 4);
  CHECK(multiplies());
}

TEST_CASE("alone: no memory for what is made at first use" * doctest::skip()) {
  const auto no_memory_twice = [](const char* function, int status) {
    for (int time = 0; time < 2; ++time) fail_next(function, status);
  };
  const auto says = [](const std::string& what, auto&& f) {
    const std::string message = message_of<MemoryError>(f);
    contains(message, "out of memory in " + what + ": ");
    contains(message, " bytes are live in tensors and recordings, ");
    contains(message, kAdvice);
  };
  no_memory_twice("cudaMallocHost", cudaErrorMemoryAllocation);
  says("asking for 4 MiB of pinned memory", [] { numbers().to(Device::cuda); });

  const Tensor x = numbers().to(Device::cuda);
  const auto multiply = [&] { matmul(x, x); };
  release_cached_memory(Device::cuda);
  fail_next("cudaMalloc", cudaSuccess);  // the call of the product
  no_memory_twice("cudaMalloc", cudaErrorMemoryAllocation);
  says("asking for cuBLAS's workspace of 32 MiB", multiply);
  no_memory_twice("cublasCreate_v2", CUBLAS_STATUS_ALLOC_FAILED);
  says("cuBLAS, in its initialisation", multiply);
  fail_next("cublasSetWorkspace_v2", CUBLAS_STATUS_ALLOC_FAILED);
  says("cuBLAS, in its initialisation", multiply);
  fail_next("cublasCreate_v2", CUBLAS_STATUS_NOT_INITIALIZED);
  contains(message_of<DeviceError>(multiply), "matmul: cuBLAS failed in its initialisation (emulated)");

  Tensor::empty({1000}, DType::float32, Device::cuda);
  CHECK(memory_stats(Device::cuda).cached >= 4000);
  fail_next("cublasCreate_v2", CUBLAS_STATUS_ALLOC_FAILED);  // once: then there is what was kept
  CHECK(multiplies());
  CHECK(memory_stats(Device::cuda).cached < 4000);
}

TEST_CASE("alone: a kernel that fails" * doctest::skip()) {
  const Tensor x = numbers().to(Device::cuda);
  const Tensor y = add(x, 1);
  fail_next("cudaStreamSynchronize", cudaErrorIllegalAddress);
  contains(
      message_of<DeviceError>([&] { y.to_vector<double>(); }),
      "CUDA failed in a copy from the GPU (an error: emulated), here or in an op before; set LINNET_CUDA_CHECK=1 "
      "to see in which. This process cannot use the GPU any more");
  CHECK(y.to_vector<double>() == add(numbers(), 1).to_vector<double>());
}

TEST_CASE("alone: a kernel that fails in the checking mode" * doctest::skip()) {
  const Tensor x = numbers().to(Device::cuda);
  fail_next("cudaStreamSynchronize", cudaErrorIllegalAddress);
  contains(message_of<DeviceError>([&] { add(x, 1); }),
           "add: CUDA failed in a kernel (an error: emulated); this process cannot use the GPU any more (");
  CHECK(add(x, 1).to_vector<double>() == add(numbers(), 1).to_vector<double>());
}

TEST_CASE("gpu: emulation: a launch that is refused is reported at its op") {
  const Tensor x = numbers().to(Device::cuda);
  fail_next("launch", cudaErrorLaunchOutOfResources);
  contains(message_of<DeviceError>([&] { add(x, 1); }),
           "add: CUDA failed in launching a kernel (an error: emulated) (");
  CHECK(add(x, 1).to_vector<double>() == add(numbers(), 1).to_vector<double>());

  Tensor::empty({1000}, DType::float32, Device::cuda);
  CHECK(memory_stats(Device::cuda).cached > 0);
  const int64_t live = memory_stats(Device::cuda).live + 512;  // with the result of the sum
  fail_next("launch", cudaErrorMemoryAllocation);
  const std::string message = message_of<MemoryError>([&] { add(x, 1); });
  contains(message, "add: out of memory in launching a kernel: " + std::to_string(live) + " bytes are live");
  contains(message, kAdvice);
  CHECK(add(x, 1).to_vector<double>() == add(numbers(), 1).to_vector<double>());
}

TEST_CASE("gpu: emulation: a product that cuBLAS fails in is reported at its op") {
  CHECK(multiplies());
  fail_next("cublasGemmStridedBatchedEx_64", CUBLAS_STATUS_EXECUTION_FAILED);
  contains(message_of<DeviceError>(multiplies), "matmul: cuBLAS failed in a matrix product (emulated) (");
  fail_next("cublasGemmStridedBatchedEx_64", CUBLAS_STATUS_ALLOC_FAILED);
  contains(message_of<MemoryError>(multiplies), "matmul: out of memory in cuBLAS, in a matrix product: ");
  // An earlier kernel has failed.
  fail_next("cublasGemmStridedBatchedEx_64", CUBLAS_STATUS_EXECUTION_FAILED);
  const Tensor x = numbers().to(Device::cuda);
  fail_next("cudaStreamSynchronize", cudaErrorIllegalAddress);
  contains(message_of<DeviceError>([&] { matmul(x, x); }), "CUDA failed in a ");
  CHECK(multiplies());

  const Tensor bias = tensor({1, 2}).to(Device::cuda);
  fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  contains(message_of<DeviceError>([&] { linear(x, x, bias); }),
           "linear: cuBLAS failed in a matrix product with a bias (emulated) (");
  CHECK(linear(x, x, bias).numel() == 4);

  // If a product cannot be described for want of memory, the next attempt uses the same kernel.
  const Tensor wide = ones({2, 3}, DType::float32, Device::cuda);
  fail_next("cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED);
  contains(message_of<MemoryError>([&] { linear(wide, wide, bias); }), "linear: out of memory in cuBLAS, in ");
  fail_next("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  contains(message_of<DeviceError>([&] { linear(wide, wide, bias); }), "a matrix product with a bias (emulated) (");
  CHECK(linear(wide, wide, bias).to_vector<double>() == std::vector<double>{4, 5, 4, 5});
}

TEST_CASE("gpu: emulation: a recording that fails says so, and the next attempt may do") {
  if (test::waits_for_kernels()) return;
  const Tensor three = tensor({3, 3}), x = tensor({1, 2});
  for (const auto& [function, what] : {std::pair{"cudaStreamEndCapture", "recording"},
                                       {"cudaMallocHost", "asking for pinned memory for a constant"},
                                       {"cudaGraphInstantiate", "making a graph of a recording"},
                                       {"cudaGraphLaunch", "launching a recording"}}) {
    Recording recording(Device::cuda, nullptr, [&](const std::vector<Tensor>& in) {
      return std::vector{in[0] + Recording::constant(three, Device::cuda)};
    });
    const auto is_right = [&] { return recording({x})[0].to_vector<double>() == std::vector<double>{4, 5}; };
    CHECK(is_right());
    fail_next(function, cudaErrorUnknown);
    contains(message_of<DeviceError>(is_right), std::string("CUDA failed in ") + what + " (an error: emulated)");
    const bool takes_memory = function != std::string("cudaStreamEndCapture");
    if (takes_memory) {
      for (int time = 0; time < 2; ++time) fail_next(function, cudaErrorMemoryAllocation);
      const std::string message = message_of<MemoryError>(is_right);
      contains(message, std::string("out of memory in ") + what + ": ");
      contains(message, kAdvice);
      fail_next(function, cudaErrorMemoryAllocation);  // once: then there is what was kept
    }
    CHECK(is_right());
    CHECK(is_right());
  }
}

}  // namespace linnet::emulation
