#pragma once

#include <algorithm>
#include <limits>

#include <linnet/core/backend.h>
#include <linnet/ops/cpu/vector_math.h>

/// What quadratic attention does with one row of scores. Rows have room for `padded` numbers, and loops run over
/// whole vectors of them: what is left over after the last whole vector would cost a short row more than all before
/// it.

namespace linnet::cpu::LINNET_ISA {

/// n, rounded up to vectors of 64 bytes.
template <class T>
int64_t padded(int64_t n) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  return (n + kLanes - 1) & -kLanes;
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void scale_by(T* x, T factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
void multiply(T* x, const T* factors, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factors[i];
}

/// What a row's weights add up to (or what they are divided by), and what softmax has subtracted from the scores.
template <class T>
struct RowSum {
  T total;
  T maximum = 0;
};

/// Scores to weights: exp(s − max).
template <class T>
RowSum<T> weigh_softmax(T* s, int64_t n) {
  const int64_t end = padded<T>(n);
  std::fill(s + n, s + end, -std::numeric_limits<T>::infinity());
  T maximum = -std::numeric_limits<T>::infinity(), total = 0;
#pragma omp simd reduction(max : maximum)
  for (int64_t j = 0; j < end; ++j) maximum = s[j] > maximum ? s[j] : maximum;
#pragma omp simd reduction(+ : total)
  for (int64_t j = 0; j < end; ++j) {
    s[j] = vec::exp(s[j] - maximum);
    total += s[j];
  }
  return {total, maximum};
}

/// Scores to weights: f(s) = a0 + a1 s + a2 s² (Gerami et al. 2024, eq. 8).
template <class T>
RowSum<T> weigh_polynomial(T* s, int64_t n, const AttentionKind& kind) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  const int64_t end = padded<T>(n);
#pragma omp simd
  for (int64_t j = 0; j < end; ++j) s[j] = a0 + s[j] * (a1 + s[j] * a2);
  std::fill(s + n, s + end, T{0});
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t j = 0; j < end; ++j) total += s[j];
  return {total};
}

/// The same with dropout of whole queries and keys: what f adds to a0 is multiplied by both tokens' factors.
template <class T>
RowSum<T> weigh_dropped(T* s, int64_t n, const AttentionKind& kind, T factor, const T* factors, bool shared) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  T clean = 0, total = 0;
#pragma omp simd reduction(+ : clean, total)
  for (int64_t j = 0; j < n; ++j) {
    const T rest = s[j] * (a1 + s[j] * a2);
    s[j] = a0 + rest * (factor * factors[j]);
    clean += a0 + rest;
    total += s[j];
  }
  return {shared ? total : clean};
}

/// Turns a row's scores s into its normalised weights p, and its products ds = d_o·v (times dropout) into `scale`
/// times the gradients of the scores; delta = d_o·o.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta),  p_j = exp(s_j − normaliser)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
template <class T>
void score_gradients(T* s, T* ds, int64_t n, T delta, T normaliser, T scale, const AttentionKind& kind) {
  const int64_t end = padded<T>(n);
  if (kind.softmax) {
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      s[j] = vec::exp(s[j] - normaliser);
      ds[j] = s[j] * (ds[j] - delta) * scale;
    }
  } else {
    const T inverse = 1 / normaliser;
    const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
    const T slope = a1 * inverse * scale, curve = 2 * a2 * inverse * scale;
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      ds[j] = (slope + curve * s[j]) * (ds[j] - delta);
      s[j] = (a0 + s[j] * (a1 + s[j] * a2)) * inverse;
    }
  }
}

/// The same for `weigh_dropped`, whose denominator sees the factors when it is shared.
template <class T>
void dropped_score_gradients(T* s, T* ds, int64_t n, T delta, T normaliser, T scale, const AttentionKind& kind,
                             T factor, const T* factors, bool shared) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  const T inverse = 1 / normaliser, unseen = shared ? T{0} : T{1};
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T kept = factor * factors[j];
    ds[j] = (a1 + 2 * a2 * s[j]) * (kept * ds[j] - (unseen + (1 - unseen) * kept) * delta) * (inverse * scale);
    s[j] = (a0 + s[j] * (a1 + s[j] * a2) * kept) * inverse;
  }
}

/// y += Σ_j w_j x_j over rows x_j, `stride` apart: for so few rows that a call to BLAS would not pay. A strip of y
/// stays in registers meanwhile.
template <class T>
void add_weighted_rows(T* y, const T* w, const T* x, int64_t stride, int64_t rows, int64_t width) {
  constexpr int64_t kStrip = 64 / sizeof(T);
  int64_t d = 0;
  for (; d + kStrip <= width; d += kStrip) {
    T sum[kStrip];
    std::copy_n(y + d, kStrip, sum);
    for (int64_t j = 0; j < rows; ++j) {
#pragma omp simd
      for (int64_t l = 0; l < kStrip; ++l) sum[l] += w[j] * x[j * stride + d + l];
    }
    std::copy_n(sum, kStrip, y + d);
  }
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t l = d; l < width; ++l) y[l] += w[j] * x[j * stride + l];
  }
}

}  // namespace linnet::cpu::LINNET_ISA
