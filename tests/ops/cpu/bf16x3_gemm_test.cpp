#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>

// This compiles the kernels' header for the instruction set of the tests, since splitting numbers needs no AMX. (No
// other file calls its inline functions, so it does not matter that it may pass vectors differently.)
#pragma GCC diagnostic ignored "-Wpsabi"
#define LINNET_ISA bf16x3_test
#include <linnet/ops/cpu/matmul/bf16x3_gemm.h>

using namespace linnet;

namespace {

namespace bf16x3 = cpu::bf16x3_test::bf16x3;

/// The sum of the three terms of x.
double joined(float x) {
  alignas(64) uint32_t words[bf16x3::kStepWords] = {};
  bf16x3::split_pair(bf16x3::Floats{} + x, bf16x3::Floats{} - x, words);
  double sum = 0;
  for (int term = 0; term < bf16x3::kTerms; ++term) {
    const uint32_t word = words[term * bf16x3::kTermWords];
    const auto low = std::bit_cast<float>(word << 16), high = std::bit_cast<float>(word & 0xffff0000);
    CHECK((low == -high || std::isnan(low)));
    sum += static_cast<double>(low);
  }
  return sum;
}

}  // namespace

TEST_CASE("the three bfloat16 terms of a float add up to it exactly") {
  Generator generator(3);
  for (const float x : randn({1000}, generator).to_vector<float>()) CHECK(joined(x) == static_cast<double>(x));
  for (const float x : {0.0F, 1.0F, 0x1.fffffep0F, -0x1.fffffep-60F, 0x1.fefffep100F, 0x1.010101p-90F}) {
    CHECK(joined(x) == static_cast<double>(x));
  }
}

TEST_CASE("the terms of a number that is not finite are not finite, whatever the bits of a NaN") {
  for (const uint32_t bits : {0x7f800000U, 0x7fc00000U, 0x7f800001U, 0x7fbfffffU, 0x7fff8000U, 0x7fffffffU}) {
    CAPTURE(bits);
    CHECK_FALSE(std::isfinite(joined(std::bit_cast<float>(bits))));
    CHECK_FALSE(std::isfinite(joined(std::bit_cast<float>(bits | 0x80000000U))));
  }
}
