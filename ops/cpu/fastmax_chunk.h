#pragma once

#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/fastmax_features.h>

/// Causal Fastmax inside one chunk, where query i sees keys j ≤ i: its quadratic form, a tile of queries at a time.

namespace linnet::cpu::LINNET_ISA {

/// Some tokens of one head as terms of a sum Σ_n φ(x_n) [y_n, t_n]ᵀ. Keys have y = v and t = 1. Queries have the
/// cotangents y = ∂L/∂o_i / g_i and t = −(∂L/∂o_i · o_i) / g_i of their numerator and denominator.
template <class T>
struct Terms {
  Vectors<T> x;
  Scratch<T> room;       // [size, D]
  Rows<const T> y{};     // [size, D], there or where the tokens are
  Scratch<T> y_columns;  // [D, size]
  Scratch<T> t;          // [size]
  Scratch<T> factors;    // [size], of dropout of whole tokens

  Terms(int64_t width, int64_t capacity)
      : x(width, capacity), room(capacity * width), y_columns(capacity * width), t(capacity), factors(capacity) {}
};

template <class T>
class ChunkInterior {
 public:
  /// `dropped`: the weights are made of dropped features; then the chunk is one tile, and `weights` are they, [kTile,
  /// kTile], or null where they are not needed.
  ChunkInterior(const FastmaxKernel& f, const Terms<T>& queries, const Terms<T>& keys, bool dropped, const T* weights)
      : f_(f),
        a0_(static_cast<T>(f.a0)),
        a1_(static_cast<T>(f.a1)),
        a2_(static_cast<T>(f.a2)),
        queries_(queries),
        keys_(keys),
        dropped_(dropped),
        weights_(weights),
        size_(queries.x.size()),
        width_(queries.x.width()),
        s_(kTile * size_),
        ds_(kTile * size_) {}

  /// Adds to the numerators F [size, D] and denominators g [size] of the queries.
  void attend(T* numerators, T* denominators) const {
    for (int64_t first = 0; first < size_; first += kTile) {
      const int64_t stride = first + kTile;
      multiply_scores(first);
      for (int64_t r = 0; r < kTile; ++r) weigh(first + r, first + r + 1, s_.data() + r * stride, denominators);
      T* out = numerators + first * width_;
      if (first > 0) {
        gemm<T>(false, false, kTile, width_, first, 1, s_.data(), stride, keys_.y.data, keys_.y.stride, 1, out,
                width_);
      }
      // The keys of the tile itself: nothing of what a query does not see is read, be it infinite.
      for (int64_t r = 0; r < kTile; ++r, out += width_) {
        for (int64_t j = first; j <= first + r; ++j) {
          const T weight = s_[r * stride + j];
          const T* y = keys_.y[j];
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) out[d] += weight * y[d];
        }
      }
    }
  }

  /// Adds to the gradients of the queries' x̃, row by row.
  void add_query_gradients(T* dx) const {
    for (int64_t first = 0; first < size_; first += kTile) {
      const int64_t seen = first + kTile;
      differentiate(first);
      gemm<T>(false, true, width_, kTile, seen, 1, keys_.x.row(1), size_, ds_.data(), seen, 1, dx + size_ + first,
              size_);
    }
  }

  /// Adds to the gradients of the keys' x̃, row by row, and of their values [size, D].
  void add_key_gradients(T* dx, Rows<T> dy) const {
    for (int64_t first = 0; first < size_; first += kTile) {
      const int64_t seen = first + kTile;
      differentiate(first);
      gemm<T>(false, false, width_, seen, kTile, 1, queries_.x.row(1) + first, size_, ds_.data(), seen, 1, dx + size_,
              size_);
      gemm<T>(true, false, seen, width_, kTile, 1, s_.data(), seen, queries_.y[first], queries_.y.stride, 1, dy.data,
              dy.stride);
    }
  }

  /// out [kTile, kTile] = the cotangents of the dropped weights of a chunk of one tile, 0 where j > i.
  void dropped_cotangents(T* out) const {
    gemm<T>(true, false, kTile, kTile, width_, 1, queries_.y_columns.data(), size_, keys_.y_columns.data(), size_, 0,
            out, kTile);
    for (int64_t i = 0; i < kTile; ++i, out += kTile) {
      const T shared = f_.shared_normaliser ? queries_.t[i] : T{0};
      for (int64_t j = 0; j < kTile; ++j) out[j] = j <= i ? out[j] + shared : T{0};
    }
  }

 private:
  /// s_ij = x_i·x_j for the queries of a tile, [kTile, first + kTile].
  void multiply_scores(int64_t first) const {
    const int64_t seen = first + kTile;
    gemm<T>(true, false, kTile, seen, width_, 1, queries_.x.row(1) + first, size_, keys_.x.row(1), size_, 0,
            s_.data(), seen);
  }

  /// The scores of query i to its weights, whose sum is added to its denominator.
  void weigh(int64_t i, int64_t seen, T* s, T* denominators) const {
    const T factor = queries_.factors[i];
    const T* factors = keys_.factors.data();
    const T* real = keys_.x.row(0);
    T clean = 0, kept = 0;
#pragma omp simd reduction(+ : clean, kept)
    for (int64_t j = 0; j < seen; ++j) {
      const T constant = a0_ * real[j], rest = s[j] * (a1_ + s[j] * a2_);
      const T weight = constant + rest * (factor * factors[j]);
      clean += constant + rest;
      kept += weight;
      s[j] = weight;
    }
    if (dropped_) {
      std::copy_n(weights_ + i * kTile, seen, s);
      kept = 0;
      for (int64_t j = 0; j < seen; ++j) kept += s[j];
    }
    denominators[i] += f_.shared_normaliser ? kept : clean;
  }

  /// Into s_ the weights of a tile's queries, and into ds_ the gradients of their scores, both 0 where j > i:
  ///   ∂s_ij = f'(s_ij) (y_i·v_j + t_i)
  void differentiate(int64_t first) const {
    const int64_t seen = first + kTile;
    multiply_scores(first);
    gemm<T>(true, false, kTile, seen, width_, 1, queries_.y_columns.data() + first, size_, keys_.y_columns.data(),
            size_, 0, ds_.data(), seen);
    for (int64_t r = 0; r < kTile; ++r) {
      const int64_t i = first + r;
      T* s = s_.data() + r * seen;
      T* ds = ds_.data() + r * seen;
      differentiate_row(i, s, ds);
      std::fill(s + i + 1, s + seen, T{0});
      std::fill(ds + i + 1, ds + seen, T{0});
    }
  }

  void differentiate_row(int64_t i, T* s, T* ds) const {
    const T factor = queries_.factors[i], t = queries_.t[i];
    const T* factors = keys_.factors.data();
    const T* real = keys_.x.row(0);
    // Where features are dropped, the weights have gone through the features, and so have their gradients.
    const T through_weights = dropped_ ? 0 : 1;
    const T shared = f_.shared_normaliser ? t * through_weights : T{0}, clean = f_.shared_normaliser ? T{0} : t;
#pragma omp simd
    for (int64_t j = 0; j <= i; ++j) {
      const T kept = factor * factors[j];
      const T slope = a1_ + 2 * a2_ * s[j];
      s[j] = a0_ * real[j] + s[j] * (a1_ + s[j] * a2_) * kept;
      ds[j] = slope * (kept * (through_weights * ds[j] + shared) + clean);
    }
    if (weights_ != nullptr) std::copy_n(weights_ + i * kTile, i + 1, s);
  }

  const FastmaxKernel& f_;
  T a0_, a1_, a2_;
  const Terms<T>& queries_;
  const Terms<T>& keys_;
  bool dropped_;
  const T* weights_;
  int64_t size_, width_;
  Scratch<T> s_, ds_;
};

}  // namespace linnet::cpu::LINNET_ISA
