#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "failure.h"
#include "grid.h"

/// Tensor cores: 16 × 16 × 16 products of bfloat16 with sums in float. Lane 0 does the work of its warp when it
/// reaches the call, so that a missing barrier before or after is noticed.

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };

constexpr int kSide = 16;

template <class Use, int rows, int columns, int depth, class T, class Layout = void>
struct fragment {
  static_assert(rows == kSide && columns == kSide && depth == kSide, "no other shape is emulated");
  float of_warp[kSide][kSide];
};

template <class T>
using Sum = fragment<accumulator, kSide, kSide, kSide, T>;
template <class Use, class T, class Layout>
using Factor = fragment<Use, kSide, kSide, kSide, T, Layout>;

/// Whether this lane does the work. A matrix must be aligned to 32 bytes (CUDA's programming guide), and the distance
/// of its rows must be a multiple of 16 bytes and of a thread's bytes of the fragment (PTX ISA, wmma.load).
template <class T>
bool is_worker(const char* what, const T* data, unsigned pitch) {
  constexpr unsigned kThreadBytes = kSide * kSide / linnet::emulation::kWarp * sizeof(T);
  static_assert(kThreadBytes % 16 == 0);
  linnet::emulation::expect_of_warp(reinterpret_cast<uintptr_t>(data) + pitch);
  if (reinterpret_cast<uintptr_t>(data) % 32 != 0) {
    linnet::emulation::fail("%s: %p is no multiple of 32 bytes", what, static_cast<const void*>(data));
  }
  if (pitch * sizeof(T) % kThreadBytes != 0) {
    linnet::emulation::fail("%s: rows of %zu bytes, no multiple of %u", what, pitch * sizeof(T), kThreadBytes);
  }
  return linnet::emulation::lane() == 0;
}

inline void fill_fragment(Sum<float>& sum, float value) {
  linnet::emulation::expect_of_warp(1);
  if (linnet::emulation::lane() != 0) return;
  for (auto& row : sum.of_warp) {
    for (float& x : row) x = value;
  }
}

template <class Use, class T, class Layout>
void load_matrix_sync(Factor<Use, T, Layout>& factor, const T* data, unsigned pitch) {
  if (!is_worker("load_matrix_sync", data, pitch)) return;
  for (unsigned r = 0; r < kSide; ++r) {
    for (unsigned c = 0; c < kSide; ++c) {
      factor.of_warp[r][c] = data[std::is_same_v<Layout, row_major> ? r * pitch + c : c * pitch + r];
    }
  }
}

template <class T, class LayoutA, class LayoutB>
void mma_sync(Sum<float>& out, const Factor<matrix_a, T, LayoutA>& a, const Factor<matrix_b, T, LayoutB>& b,
              const Sum<float>& sum) {
  linnet::emulation::expect_of_warp(2);
  if (linnet::emulation::lane() != 0) return;
  for (int i = 0; i < kSide; ++i) {
    float row[kSide];
    std::memcpy(row, sum.of_warp[i], sizeof row);
    for (int k = 0; k < kSide; ++k) {
      for (int j = 0; j < kSide; ++j) row[j] += a.of_warp[i][k] * b.of_warp[k][j];
    }
    std::memcpy(out.of_warp[i], row, sizeof row);
  }
}

inline void store_matrix_sync(float* data, const Sum<float>& sum, unsigned pitch, layout_t layout) {
  if (!is_worker("store_matrix_sync", data, pitch)) return;
  for (unsigned r = 0; r < kSide; ++r) {
    for (unsigned c = 0; c < kSide; ++c)
      data[layout == mem_row_major ? r * pitch + c : c * pitch + r] = sum.of_warp[r][c];
  }
}

}  // namespace nvcuda::wmma
