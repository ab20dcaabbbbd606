#pragma once

#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/device/head_rows.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/large_mean.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/transpose.h>
#include <linnet/ops/cpu/device/vector_math.h>

namespace linnet::cpu::LINNET_ISA {

/// Tokens of a tile. The innermost loops run over them, vectorised.
constexpr int64_t kTile = 64;

/// The tokens of one head of q, k or v [B, H, N, D]. Positions outside of it, before `begin` or masked as padding
/// read as zeros.
template <class T>
struct Sequence {
  Rows<const T> rows;
  int64_t begin, count;
  const bool* padding_mask;  // null when nothing is padding
  int64_t mask_stride;

  bool has(int64_t i) const {
    return i >= begin && i < count && (padding_mask == nullptr || padding_mask[i * mask_stride]);
  }
  /// Whether all `size` tokens from `first` on exist.
  bool has_all(int64_t first, int64_t size) const {
    return padding_mask == nullptr && first >= begin && first + size <= count;
  }

  /// Where to write the results of `size` tokens from `first` on, before `store`: `to` itself if all tokens exist,
  /// otherwise `scratch` [size, width].
  Rows<T> results(int64_t first, int64_t size, int64_t width, Rows<T> to, T* scratch) const {
    return has_all(first, size) ? to.from(first) : Rows<T>{scratch, width};
  }

  /// Copies the tokens' results to the rows `to`, 0 for padding, unless `results` returned these rows.
  void store(int64_t first, int64_t size, int64_t width, Rows<const T> results, Rows<T> to) const {
    if (has_all(first, size)) return;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t i = first + n;
      if (i < 0 || i >= count) continue;
      if (has(i)) {
        std::copy_n(results[n], width, to[i]);
      } else {
        std::fill_n(to[i], width, T{0});
      }
    }
  }
};

/// `size` tokens from `first` on: in place if all exist, otherwise a copy in `scratch` [size, width].
template <class T>
Rows<const T> tokens_of(const Sequence<T>& from, int64_t first, int64_t size, int64_t width, T* scratch) {
  if (from.has_all(first, size)) return from.rows.from(first);
  for (int64_t n = 0; n < size; ++n) {
    T* to = scratch + n * width;
    if (from.has(first + n)) {
      std::copy_n(from.rows[first + n], width, to);
    } else {
      std::fill_n(to, width, T{0});
    }
  }
  return {scratch, width};
}

/// The vectors x̃ = [1; x] of some tokens, transposed: [1 + D, tokens]. Row 0 is 1 where there is a token and 0
/// elsewhere, row 1 + d is entry d of each token. x is q or k after FastmaxParams::map, as in MappedRows.
template <class T>
class AugmentedTokens {
 public:
  AugmentedTokens(int64_t width, int64_t capacity)
      : width_(width),
        memory_((2 * width + 2) * capacity),
        inverse_(memory_.data() + (width + 1) * capacity),
        scratch_(inverse_ + capacity) {}

  void load(const Sequence<T>& from, int64_t first, int64_t size, RowMap map, bool queries) {
    from_ = from;
    first_ = first;
    size_ = size;
    map_ = map;
    transpose<T>(size, width_, tokens_of(from, first, size, width_, scratch_), {row(1), size});
    if (from.has_all(first, size)) {
      std::fill_n(row(0), size, T{1});
    } else {
      for (int64_t n = 0; n < size; ++n) row(0)[n] = from.has(first + n) ? T{1} : T{0};
    }
    if (map == RowMap::standardise) standardise();
    if (map == RowMap::elu_plus_one) make_features(queries);
  }

  int64_t size() const { return size_; }
  int64_t width() const { return width_; }
  T* row(int64_t a) const { return memory_.data() + a * size_; }

  /// Writes the tokens' gradients to the rows `to`, from the gradients of x̃, laid out like it. Overwrites `dx`.
  void store_gradients(T* dx, Rows<T> to) {
    if (map_ == RowMap::standardise) through_standardisation(dx + size_);
    if (map_ == RowMap::elu_plus_one) through_features(dx + size_);
    const Rows<T> rows = results(to, scratch_);
    transpose<T>(width_, size_, {dx + size_, size_}, rows);
    store(rows, to);
  }

  /// `Sequence::results` and `Sequence::store` for these tokens.
  Rows<T> results(Rows<T> to, T* scratch) const { return from_.results(first_, size_, width_, to, scratch); }
  void store(Rows<const T> results, Rows<T> to) const { from_.store(first_, size_, width_, results, to); }

 private:
  /// x̂ = (x − mean(x)) / √(var(x) + eps), for a tile of tokens at a time.              [FAST eq.5] [FAST eq.6]
  void standardise() {
    const T inverse = 1 / static_cast<T>(width_);
    for (int64_t tile = 0; tile < size_; tile += kTile) {
      T mean[kTile], variance[kTile];
      const auto find_moments = [&] {
        for (int64_t n = 0; n < kTile; ++n) mean[n] = variance[n] = 0;
        for_each_entry(tile, [&](int64_t n, T x) { mean[n] += x; });
        for (T& m : mean) m *= inverse;
        for_each_entry(tile, [&](int64_t n, T x) { variance[n] += (x - mean[n]) * (x - mean[n]); });
      };
      find_moments();
      T large[kTile];  // the means to subtract first, so that the rest has a small mean
      bool any_large = false;
      for (int64_t n = 0; n < kTile; ++n) {
        large[n] = has_large_mean(mean[n], variance[n] * inverse) ? mean[n] : T{0};
        any_large = any_large || large[n] != 0;
      }
      if (any_large) {
        for_each_entry(tile, [&](int64_t n, T& x) { x -= large[n]; });
        find_moments();
      }
      T* scale = inverse_ + tile;
      for (int64_t n = 0; n < kTile; ++n) scale[n] = 1 / std::sqrt(variance[n] * inverse + static_cast<T>(1e-5));
      for_each_entry(tile, [&](int64_t n, T& x) { x = (x - mean[n]) * scale[n]; });
    }
  }

  /// The gradient of [FAST eq.5] [FAST eq.6], in place, as of a layer norm without a weight. If single features are
  /// dropped, mean(∂x̂) is not 0 as in `standardise_backward`.
  ///   ∂x = (∂x̂ − mean(∂x̂) − x̂·mean(∂x̂·x̂)) / std
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
      const T* scale = inverse_ + tile;
      for (int64_t d = 0; d < width_; ++d) {
        T* g = dx + d * size_ + tile;
        const T* x = row(1 + d) + tile;
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) g[n] = (g[n] - mean[n] - x[n] * product[n]) * scale[n];
      }
    }
  }

  /// As make_elu_rows; 0 where there is no token.
  void make_features(bool queries) {
    for (int64_t tile = 0; tile < size_; tile += kTile) {
      const T* real = row(0) + tile;
      T total[kTile] = {};
      for_each_entry(tile, [&](int64_t n, T& x) {
        x = vec::elu_plus_one(x) * real[n];
        total[n] += x;
      });
      T* inverse = inverse_ + tile;
      for (int64_t n = 0; n < kTile; ++n) inverse[n] = queries && total[n] > 0 ? 1 / total[n] : T{1};
      if (queries) for_each_entry(tile, [&](int64_t n, T& x) { x *= inverse[n]; });
    }
  }

  /// As elu_rows_backward.
  void through_features(T* dx) const {
    for (int64_t tile = 0; tile < size_; tile += kTile) {
      const T* inverse = inverse_ + tile;
      for (int64_t d = 0; d < width_; ++d) {
        T* g = dx + d * size_ + tile;
        const T* x = row(1 + d) + tile;
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) g[n] *= x[n] < inverse[n] ? x[n] : inverse[n];
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
  RowMap map_ = RowMap::none;
  Scratch<T> memory_;
  T *inverse_, *scratch_;
};

}  // namespace linnet::cpu::LINNET_ISA
