#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>

// The kernels' own header, here for the instruction set of the tests: what it says of numbers needs no AMX. (Nothing
// that it inlines is called from elsewhere, where vectors might be passed otherwise.)
#pragma GCC diagnostic ignored "-Wpsabi"
#define LINNET_ISA split_test
#include <linnet/ops/cpu/matmul/bf16x3_gemm.h>

using namespace linnet;

namespace {

namespace split = cpu::split_test::split;

/// The sum of the three parts of x.
double joined(float x) {
  alignas(64) uint32_t words[split::kStepWords] = {};
  split::split_pair(split::Floats{} + x, split::Floats{} - x, words);
  double sum = 0;
  for (int part = 0; part < split::kParts; ++part) {
    const uint32_t word = words[part * split::kPartWords];
    const auto low = std::bit_cast<float>(word << 16), high = std::bit_cast<float>(word & 0xffff0000);
    CHECK((low == -high || std::isnan(low)));
    sum += static_cast<double>(low);
  }
  return sum;
}

}  // namespace

TEST_CASE("the three parts of a float are all of it") {
  Generator generator(3);
  for (const float x : randn({1000}, generator).to_vector<float>()) CHECK(joined(x) == static_cast<double>(x));
  for (const float x : {0.0F, 1.0F, 0x1.fffffep0F, -0x1.fffffep-60F, 0x1.fefffep100F, 0x1.010101p-90F}) {
    CHECK(joined(x) == static_cast<double>(x));
  }
}

TEST_CASE("the parts of what is not finite are not finite, whatever the bits of a NaN") {
  for (const uint32_t bits : {0x7f800000U, 0x7fc00000U, 0x7f800001U, 0x7fbfffffU, 0x7fff8000U, 0x7fffffffU}) {
    CAPTURE(bits);
    CHECK_FALSE(std::isfinite(joined(std::bit_cast<float>(bits))));
    CHECK_FALSE(std::isfinite(joined(std::bit_cast<float>(bits | 0x80000000U))));
  }
}
