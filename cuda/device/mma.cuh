#pragma once

#include <cstdint>

/// Matrix products by tensor cores on the registers of a warp: bfloat16 factors with sums in float, from sm_80 on
/// (PTX ISA, mma.m16n8k16 and ldmatrix). All lanes of a warp call these together. A register holds two neighbouring
/// bfloat16 numbers, the first in its lower half. Lane l = 4·g + t, with g in 0…7 and t in 0…3, holds these elements
/// of the warp's matrices:
///
///     A, 16 × 16                      columns 2t, 2t + 1       columns 2t + 8, 2t + 9
///                          row g      a[0]                     a[2]
///                          row g + 8  a[1]                     a[3]
///
///     B, 16 × 8                       column g
///        rows 2t, 2t + 1              b0
///        rows 2t + 8, 2t + 9          b1
///
///     C, 16 × 8                       column 2t       column 2t + 1
///                          row g      c0              c1
///                          row g + 8  c2              c3
///
/// Two matrices C side by side, rounded and packed, have the layout of one A.

namespace linnet::cuda {

/// C += A·B
__device__ inline void multiply_add(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  // Volatile, so that the compiler does not move it into a branch that only some lanes take.
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Loads four 8 × 8 matrices from shared memory. Lane l passes the address of row l % 8 of matrix l / 8, which is 16
/// aligned bytes. m[n] becomes the elements (g, 2t) and (g, 2t + 1) of matrix n.
__device__ inline void load_matrices(uint32_t (&m)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}

/// Loads the transposes: m[n] becomes the elements (2t, g) and (2t + 1, g) of matrix n.
__device__ inline void load_transposed(uint32_t (&m)[4], const void* row) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
#endif
}

}  // namespace linnet::cuda
