#include <algorithm>
#include <string>

#include <linnet/core/build_info.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/profile.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/cuda/agreement.h"

/// Memory, transfers and errors of the GPU, and the error if there is no GPU.

namespace linnet::test {

TEST_CASE("without a gpu: asking for one is an error that says what to do, each time") {
  if (!lacks_gpu("errors of a device that does not answer")) return;
  for (int time = 0; time < 2; ++time) {
    try {
      Tensor::empty({2}, DType::float32, Device::cuda);
      FAIL("nothing was thrown");
    } catch (const DeviceError& error) {
      const std::string message = error.what();
      CAPTURE(message);
      const auto says = [&](const char* words) { return message.find(words) != std::string::npos; };
      const bool without_cuda = says(
          "this linnet was built without CUDA; install a CUDA Toolkit 12 or 13 and configure with -DLINNET_CUDA=ON, "
          "or use --device cpu (Device::cpu)");
      CHECK((without_cuda || says("; see what nvidia-smi says, or use --device cpu (Device::cpu)")));
    }
  }
  CHECK_THROWS_AS(build_info(Device::cuda), DeviceError);
  CHECK(add(uniform({2}, 1), 1).numel() == 2);  // the process can continue
}

TEST_CASE("gpu: memory is counted, reused, and refused with what was asked and what is live") {
  if (!has_gpu("memory of the GPU")) return;
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  release_cached_memory(Device::cuda);
  reset_peak_memory(Device::cuda);
  const MemoryStats start = memory_stats(Device::cuda);
  const void* block = nullptr;
  {
    const Tensor a = Tensor::empty({2 * kMebibyte}, DType::boolean, Device::cuda);
    block = detail::view(a).data;
    CHECK(memory_stats(Device::cuda).live == start.live + 2 * kMebibyte);
  }
  CHECK(memory_stats(Device::cuda).peak == start.live + 2 * kMebibyte);
  CHECK(memory_stats(Device::cuda).cached == 2 * kMebibyte);
  CHECK(detail::view(Tensor::empty({2 * kMebibyte - 100}, DType::boolean, Device::cuda)).data == block);
  try {
    const Tensor some = Tensor::empty({2 * kMebibyte}, DType::boolean, Device::cuda);
    Tensor::empty({int64_t{1} << 50}, DType::boolean, Device::cuda);
    FAIL("nothing was thrown");
  } catch (const MemoryError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find("empty: out of memory in asking for 1125899906842624 bytes of GPU memory: " +
                       std::to_string(start.live + 2 * kMebibyte) +
                       " bytes are live in tensors and recordings, 0 kept for reuse, and ") == 0);
    CHECK(message.find(" free; use a smaller batch or context, or free tensors first") != std::string::npos);
  }
  CHECK(memory_stats(Device::cuda).live == start.live);
  CHECK(spread({5}, 1, DType::float32, Device::cuda).to_vector<float>().size() == 5);  // the process can continue
}

TEST_CASE("gpu: transfers of any size bring back what was sent") {
  if (!has_gpu("transfers to the GPU")) return;
  for (const int64_t n : {0, 1, 8192, 8193, 524'288, 524'289, 3'000'000}) {  // 64 KiB are 8,192; a piece has 524,288
    const Tensor x = uniform({n}, 3);
    CHECK(x.to(Device::cuda).to_vector<double>() == x.to_vector<double>());
  }
  for (const int64_t n : {1000, 30'000}) {
    std::vector<Tensor> many;  // more than the staging slots, before any is read
    for (uint64_t i = 0; i < 20; ++i) many.push_back(uniform({n}, i).to(Device::cuda));
    for (uint64_t i = 0; i < 20; ++i) CHECK(many[i].to_vector<double>() == uniform({n}, i).to_vector<double>());
  }
}

TEST_CASE("gpu: a copy does not overtake kernels that read what its memory held before") {
  if (!has_gpu("copies beside kernels")) return;
  constexpr int64_t kSize = 100'000;
  const Tensor ones = full({kSize}, 1.0).to(Device::cuda);
  Tensor total = zeros({kSize}).to(Device::cuda);
  for (int step = 0; step < 100; ++step) {
    const Tensor batch = full({kSize}, step).to(Device::cuda);  // in the memory of the previous batch
    for (int kernel = 0; kernel < 5; ++kernel) total = add(total, mul(batch, ones));
  }
  const std::vector<float> sums = total.to_vector<float>();
  CHECK(std::count(sums.begin(), sums.end(), 5.0F * 99 * 100 / 2) == kSize);
}

TEST_CASE("gpu: a profile times the GPU's kernels, too") {
  if (!has_gpu("profiles of the GPU")) return;
  const Tensor x = spread({300, 300}, 1, DType::float32, Device::cuda);
  Tensor product;
  std::vector<KernelCall> calls;
  {
    const Profile profile;
    product = matmul(x, x);
    calls = profile.calls();
  }
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].kernel == "gemm");
  CHECK(calls[0].op == "matmul");
  CHECK(calls[0].bytes == 3 * 4 * 300 * 300);
  CHECK(calls[0].ms > 0);
  CHECK(product.to_vector<float>() == matmul(x, x).to_vector<float>());
}

TEST_CASE("gpu: tensors on two devices are refused") {
  if (!has_gpu("tensors on two devices")) return;
  const Tensor x = uniform({3}, 1);
  CHECK_THROWS_WITH_AS(add(x, x.to(Device::cuda)),
                       doctest::Contains("add: tensors are on two devices, cpu and cuda; move one with to(Device)"),
                       DeviceError);
  CHECK(add(x.to(Device::cuda), 1).to_vector<double>() == add(x, 1).to_vector<double>());  // still works
}

TEST_CASE("gpu: anomaly mode finds a NaN") {
  if (!has_gpu("NaN on the GPU")) return;
  const AnomalyMode anomaly;
  const Tensor zero = spread({1000}, 1, DType::float32, Device::cuda, 0, 0);
  CHECK_NOTHROW(add(zero, 1));
  CHECK_THROWS_AS(div(zero, zero), ValueError);
}

}  // namespace linnet::test
