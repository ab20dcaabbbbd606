#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>

#include "tests/support/child_program.h"
#include "tests/support/files.h"

/// Chapter 14 of the tutorial prints a CUDA kernel and simulates it. Here nvcc compiles the kernel, and a GPU runs
/// it.

namespace {

constexpr int kNoGpu = 77;  // the exit code of a program that finds none

/// The lines between ```cuda and ``` in the comments of a chapter.
std::string cuda_block(const std::string& chapter) {
  std::smatch block;
  if (!std::regex_search(chapter, block, std::regex("// ```cuda\n([^]*?)// ```\n"))) return "";
  return std::regex_replace(block[1].str(), std::regex("(^|\n)// ?"), "$1");
}

/// A program around the block, whose last line launches the kernel. It ends with 0 if the product is right.
std::string program_around(const std::string& block) {
  const size_t launch = block.find("product<<<");
  REQUIRE(launch != std::string::npos);
  return "#include <cstdio>\n" + block.substr(0, launch) + R"cuda(
int main() {
  const int n = 64;
  float *a, *b, *c;
  const auto bytes = n * n * sizeof(float);
  if (cudaMallocManaged(&a, bytes) != cudaSuccess) return NO_GPU;
  if (cudaMallocManaged(&b, bytes) != cudaSuccess || cudaMallocManaged(&c, bytes) != cudaSuccess) return 2;
  for (int i = 0; i < n * n; ++i) a[i] = float(i % 7), b[i] = float(i % 5);
  )cuda" +
         block.substr(launch) +
         R"cuda(
  if (cudaDeviceSynchronize() != cudaSuccess) return 3;
  for (int row = 0; row < n; ++row) {
    for (int col = 0; col < n; ++col) {
      float sum = 0;  // of small integers, so every order gives the same
      for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
      if (c[row * n + col] != sum) return 4;
    }
  }
}
)cuda";
}

}  // namespace

TEST_CASE("tutorial: the CUDA text of chapter 14 compiles, and computes the product on a GPU") {
  const linnet::test::TemporaryFolder folder;
  const std::string chapter = linnet::test::read_bytes(LINNET_SOURCE_DIR "/examples/tutorial/14_gpu.cpp");
  linnet::test::write_bytes(folder / "chapter.cu", program_around(cuda_block(chapter)));
  const std::string program = folder / "chapter";
  const linnet::test::Ended compiled = linnet::test::run_program(
      LINNET_TEST_NVCC, {"-ccbin", LINNET_TEST_NVCC_HOST, "-std=c++17", "-Werror=all-warnings",
                         "-DNO_GPU=" + std::to_string(kNoGpu), "-o", program, folder / "chapter.cu"});
  REQUIRE_MESSAGE(compiled.code == 0, compiled.out, compiled.err);
  const linnet::test::Ended ended = linnet::test::run_program(program, {});
  if (ended.code == kNoGpu) {
    std::printf("SKIPPED: the kernel of chapter 14 was compiled, but there is no GPU to run it\n");
    return;
  }
  CHECK(ended.code == 0);
}
