#include "mma.cuh"

#include <cstdint>
#include <cstring>
#include <utility>

#include <doctest/doctest.h>

/// Compares the replacement of cuda/device/mma.cuh with plain loops. All numbers are different and exact in bfloat16,
/// so that a number in a wrong place is noticed.

namespace linnet::emulation {
namespace {

uint16_t bits_of(float held_by_bfloat16) {
  uint32_t bits;
  std::memcpy(&bits, &held_by_bfloat16, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

/// The registers of every lane of a warp that calls `f(lane, registers)`.
template <class T, int kCount, class F>
void run_warp(T (&registers)[kWarp][kCount], F f) {
  run_grid({1, kWarp, nullptr}, [&] { f(lane(), registers[lane()]); });
}

}  // namespace

TEST_CASE("gpu: emulation: ldmatrix hands each lane its pairs of four matrices, as they are or transposed") {
  constexpr unsigned kSide = 16, kPitch = 24;  // rows of 48 bytes; matrix n is the n-th quarter, row by row
  alignas(16) static uint16_t stored[kSide][kPitch];
  for (unsigned r = 0; r < kSide; ++r) {
    for (unsigned c = 0; c < kSide; ++c) stored[r][c] = static_cast<uint16_t>(r * kSide + c);
  }
  for (const bool transposed : {false, true}) {
    uint32_t registers[kWarp][4];
    run_warp(registers, [&](unsigned lane, uint32_t(&m)[4]) {
      const void* row = &stored[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8];
      transposed ? cuda::load_transposed(m, row) : cuda::load_matrices(m, row);
    });
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      for (unsigned n = 0; n < 4; ++n) {
        for (unsigned half = 0; half < 2; ++half) {
          unsigned r = lane / 4, c = lane % 4 * 2 + half;  // within the matrix
          if (transposed) std::swap(r, c);
          CHECK((registers[lane][n] >> (16 * half) & 0xffff) == (n / 2 * 8 + r) * kSide + n % 2 * 8 + c);
        }
      }
    }
  }
}

TEST_CASE("gpu: emulation: mma multiplies matrices that are spread over a warp as the PTX ISA draws it") {
  float a[16][16], b[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) a[i][k] = static_cast<float>(i * 16 + k) / 4;
    for (int j = 0; j < 8; ++j) b[i][j] = static_cast<float>(100 - i * 8 - j);
  }
  float sums[kWarp][4];
  run_warp(sums, [&](unsigned lane, float(&c)[4]) {
    const unsigned g = lane / 4, t = lane % 4;
    const auto pair = [](float low, float high) { return bits_of(low) | uint32_t{bits_of(high)} << 16; };
    const uint32_t factors[] = {pair(a[g][2 * t], a[g][2 * t + 1]), pair(a[g + 8][2 * t], a[g + 8][2 * t + 1]),
                                pair(a[g][2 * t + 8], a[g][2 * t + 9]),
                                pair(a[g + 8][2 * t + 8], a[g + 8][2 * t + 9])};
    for (int i = 0; i < 4; ++i) c[i] = static_cast<float>(i);
    cuda::multiply_add(c[0], c[1], c[2], c[3], factors, pair(b[2 * t][g], b[2 * t + 1][g]),
                       pair(b[2 * t + 8][g], b[2 * t + 9][g]));
  });
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float expected = static_cast<float>(i);
      for (unsigned k = 0; k < 16; ++k) expected += a[row][k] * b[k][column];
      CHECK(sums[lane][i] == expected);  // all are multiples of 1/4, exact in float
    }
  }
}

}  // namespace linnet::emulation
