#pragma once

#include <cstdint>
#include <cstring>

#include "failure.h"
#include "grid.h"

/// Replaces cuda/device/mma.cuh, whose functions are single instructions. It follows the PTX ISA's text on which lane
/// holds which element ("Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix"), not the kernels.

namespace linnet::emulation {

/// The arguments of the lanes of the current warp.
struct MmaFactors {
  uint32_t a[kWarp][4], b[kWarp][2];
};
inline MmaFactors mma_factors;
inline const char* matrix_rows[kWarp];

/// Element `half` (0 the lower) of a register.
inline float bfloat16_of(uint32_t pair, unsigned half) {
  const uint32_t bits = (half == 0 ? pair << 16 : pair & 0xffff0000u);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// A[row][column]: element a_i of a lane is in row groupID for i in 0, 1, 4, 5, else in groupID + 8; in column
/// (threadID_in_group · 2) + (i & 1), from a_4 on 8 further.
inline float mma_a(unsigned row, unsigned column) {
  const unsigned group = row % 8, in_group = column % 8 / 2;
  const unsigned i = (row < 8 ? 0 : 2) + (column < 8 ? 0 : 4) + column % 2;
  return bfloat16_of(mma_factors.a[group * 4 + in_group][i / 2], i % 2);
}

/// B[row][column]: element b_i of a lane is in row (threadID_in_group · 2) + (i & 1), from b_2 on 8 further; in
/// column groupID.
inline float mma_b(unsigned row, unsigned column) {
  const unsigned in_group = row % 8 / 2, i = (row < 8 ? 0 : 2) + row % 2;
  return bfloat16_of(mma_factors.b[column * 4 + in_group][i / 2], i % 2);
}

/// Register n of this lane: of matrix n, whose rows lanes 8n to 8n + 7 name, row (lane / 4), elements 2 · (lane % 4)
/// and the next; of its transpose with `transposed`.
inline void load_matrix_registers(uint32_t (&m)[4], const void* row, bool transposed) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("ldmatrix: %p is no multiple of 16 bytes", row);
  matrix_rows[lane()] = static_cast<const char*>(row);
  expect_of_warp(transposed);
  wait_for_warp(Call::ldmatrix);
  for (unsigned n = 0; n < 4; ++n) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned r = lane() / 4, c = lane() % 4 * 2 + half;
      uint16_t element;
      std::memcpy(&element, matrix_rows[n * 8 + (transposed ? c : r)] + (transposed ? r : c) * sizeof element,
                  sizeof element);
      m[n] = half == 0 ? element : m[n] | uint32_t{element} << 16;
    }
  }
  wait_for_warp(Call::ldmatrix);  // before another call overwrites these rows
}

/// C += A·B. Element c_i of a lane is in row groupID, from c_2 on 8 further; in column (threadID_in_group · 2) + (i &
/// 1).
inline void add_product_registers(float* const (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  std::memcpy(mma_factors.a[lane()], a, sizeof a);
  mma_factors.b[lane()][0] = b0;
  mma_factors.b[lane()][1] = b1;
  wait_for_warp(Call::mma);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane() / 4 + (i < 2 ? 0 : 8), column = lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) *sums[i] += mma_a(row, k) * mma_b(k, column);
  }
  wait_for_warp(Call::mma);  // before another call overwrites these factors
}

}  // namespace linnet::emulation

namespace linnet::cuda {

inline void multiply_add(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1) {
  emulation::add_product_registers({&c0, &c1, &c2, &c3}, a, b0, b1);
}
inline void load_matrices(uint32_t (&m)[4], const void* row) { emulation::load_matrix_registers(m, row, false); }
inline void load_transposed(uint32_t (&m)[4], const void* row) { emulation::load_matrix_registers(m, row, true); }

}  // namespace linnet::cuda
