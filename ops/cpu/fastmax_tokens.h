#pragma once

#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/head_rows.h>
#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>
#include <linnet/ops/cpu/transpose.h>

namespace linnet::cpu::LINNET_ISA {

/// Tokens that are handled together: the loops over them have this many turns, all in vectors.
constexpr int64_t kTile = 64;

/// One head of q, k or v [B, H, N, D]; what is outside of it, or padding, counts as zeros.
template <class T>
struct Sequence {
  Rows<const T> rows;
  int64_t count;
  const bool* keep;  // null when nothing is padding
  int64_t keep_stride;

  bool has(int64_t i) const { return i >= 0 && i < count && (keep == nullptr || keep[i * keep_stride]); }
};

/// to[n] = token first + n, for `size` tokens.
template <class T>
void copy_tokens(const Sequence<T>& from, int64_t first, int64_t size, int64_t width, T* to) {
  for (int64_t n = 0; n < size; ++n, to += width) {
    if (from.has(first + n)) {
      std::copy_n(from.rows[first + n], width, to);
    } else {
      std::fill_n(to, width, T{0});
    }
  }
}

/// The vectors x̃ = [1; x] of some tokens, token by token along a row: row 0 tells which tokens there are, row 1 + d
/// is entry d of them all. x is q̂ or k̂ (eqs. 5–6), or q or k as it is.
template <class T>
class Vectors {
 public:
  Vectors(int64_t width, int64_t capacity)
      : width_(width), x_((width + 1) * capacity), rows_(width * capacity), rstd_(capacity) {}

  void load(const Sequence<T>& from, int64_t first, int64_t size, bool standardise) {
    from_ = from;
    first_ = first;
    size_ = size;
    standardised_ = standardise;
    copy_tokens(from, first, size, width_, rows_.data());
    transpose<T>(size, width_, {rows_.data(), width_}, {row(1), size});
    for (int64_t n = 0; n < size; ++n) row(0)[n] = from.has(first + n) ? T{1} : T{0};
    if (standardise) this->standardise();
  }

  int64_t size() const { return size_; }
  int64_t width() const { return width_; }
  T* row(int64_t a) const { return x_.data() + a * size_; }

  /// From the gradients of the x̃, laid out like them and changed on the way, to those of the tokens, which it writes.
  void store_gradients(T* dx, Rows<T> to) {
    if (standardised_) through_standardisation(dx + size_);
    transpose<T>(width_, size_, {dx + size_, size_}, {rows_.data(), width_});
    store(rows_.data(), to);
  }

  /// Writes a row [D] for each token that is in the sequence, 0 for padding.
  void store(const T* rows, Rows<T> to) const {
    for (int64_t n = 0; n < size_; ++n) {
      const int64_t i = first_ + n;
      if (i < 0 || i >= from_.count) continue;
      if (row(0)[n] != 0) {
        std::copy_n(rows + n * width_, width_, to[i]);
      } else {
        std::fill_n(to[i], width_, T{0});
      }
    }
  }

 private:
  /// x̂ = (x − mean(x)) / √(var(x) + eps), eqs. 5–6, for a tile of tokens at a time.
  void standardise() {
    const T inverse = 1 / static_cast<T>(width_);
    for (int64_t tile = 0; tile < size_; tile += kTile) {
      T mean[kTile] = {}, variance[kTile] = {};
      for_each_entry(tile, [&](int64_t n, T x) { mean[n] += x; });
      for (T& m : mean) m *= inverse;
      for_each_entry(tile, [&](int64_t n, T x) { variance[n] += (x - mean[n]) * (x - mean[n]); });
      T* scale = rstd_.data() + tile;
      for (int64_t n = 0; n < kTile; ++n) scale[n] = 1 / std::sqrt(variance[n] * inverse + static_cast<T>(1e-5));
      for_each_entry(tile, [&](int64_t n, T& x) { x = (x - mean[n]) * scale[n]; });
    }
  }

  /// ∂x = (∂x̂ − mean(∂x̂) − x̂·mean(∂x̂·x̂)) / std, a layer norm without gain; in place.
  void through_standardisation(T* dx) const {
    const T inverse = 1 / static_cast<T>(width_);
    for (int64_t tile = 0; tile < size_; tile += kTile) {
      T mean[kTile] = {}, product[kTile] = {};
      for (int64_t d = 0; d < width_; ++d) {
        const T* g = dx + d * size_ + tile;
        const T* x = row(1 + d) + tile;
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) {
          mean[n] += g[n] * inverse;
          product[n] += g[n] * x[n] * inverse;
        }
      }
      const T* scale = rstd_.data() + tile;
      for (int64_t d = 0; d < width_; ++d) {
        T* g = dx + d * size_ + tile;
        const T* x = row(1 + d) + tile;
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) g[n] = (g[n] - mean[n] - x[n] * product[n]) * scale[n];
      }
    }
  }

  template <class F>
  void for_each_entry(int64_t tile, F f) {
    for (int64_t d = 0; d < width_; ++d) {
      T* x = row(1 + d) + tile;
#pragma omp simd
      for (int64_t n = 0; n < kTile; ++n) f(n, x[n]);
    }
  }

  int64_t width_, size_ = 0, first_ = 0;
  Sequence<T> from_{};
  bool standardised_ = false;
  Scratch<T> x_, rows_, rstd_;
};

}  // namespace linnet::cpu::LINNET_ISA
