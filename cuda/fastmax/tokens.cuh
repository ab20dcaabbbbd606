#pragma once

#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/random_byte.cuh>
#include <linnet/cuda/fastmax/features.cuh>

/// From tensors [B, H, N, D] to the sides of the factorised form, and back: a thread for each token, whose row stays
/// in the first cache while it is gone through. Memory bounds these kernels. Elements of tensors are of type E.

namespace linnet::cuda {

/// The tokens of a tensor, from `first` on, of which `padding_mask` may leave some out.
struct Tokens {
  int64_t heads;  ///< of a sequence
  int64_t all_heads, positions;
  FirstQuery first;
  int64_t count, shift;
  PaddingMask padding_mask;

  __device__ bool has(int64_t head, int64_t i) const {
    return i >= first.of(head / heads) && i < count && padding_mask.has(head / heads, i);
  }
};

/// Calls `f(head, position, i, there)` for each position of each head, where token i is or is not.
template <class F>
__device__ void for_each_token(const Tokens& tokens, F f) {
  for (int64_t item = first_item(); item < tokens.all_heads * tokens.positions; item += item_step()) {
    const int64_t head = item / tokens.positions, position = item % tokens.positions, i = position - tokens.shift;
    f(head, position, i, tokens.has(head, i));
  }
}

/// x̃, standardised (eqs. 5–6) if asked for, and the factors of dropped tokens where there is a place for them.
template <class T, class E>
__global__ void load_vectors(Tokens tokens, Factorised<T> in, Heads<const E> from, Side<T> to, bool standardise) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool there) {
    const int64_t item = head * in.positions + position;
    T* x = to.x + head * in.rows() * in.positions + position;
    const E* elements = there ? from.at(head / tokens.heads, head % tokens.heads, i) : nullptr;
    const auto row = [=](int64_t d) { return static_cast<T>(elements[d]); };
    T mean = 0, rest = 0, inverse = 1;  // rest: of a large mean, which rounding leaves in the row
    if (there && standardise) {
      const auto width = static_cast<T>(in.width);
      for (int64_t d = 0; d < in.width; ++d) mean += row(d);
      mean /= width;
      T variance = 0;
      for (int64_t d = 0; d < in.width; ++d) variance += (row(d) - mean) * (row(d) - mean);
      variance /= width;
      if (has_large_mean(mean, variance)) {
        for (int64_t d = 0; d < in.width; ++d) rest += row(d) - mean;
        rest /= width;
        variance = max(variance - rest * rest, T{0});
      }
      inverse = 1 / sqrt(variance + static_cast<T>(1e-5));
    }
    for (int64_t d = 0; d < in.width; ++d) x[d * in.positions] = there ? (row(d) - mean - rest) * inverse : T{0};
    x[in.width * in.positions] = there ? T{1} : T{0};
    to.inverse[item] = inverse;
    if (to.factor == nullptr) return;
    to.factor[item] = random_byte(to.key, item) < in.keep_of_256 ? static_cast<T>(256.0 / in.keep_of_256) : T{0};
  });
}

/// ỹ = [v; 1] of the keys.
template <class T, class E>
__global__ void load_values(Tokens tokens, Factorised<T> in, Heads<const E> from, Side<T> to) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool there) {
    T* y = to.y + head * in.rows() * in.positions + position;
    const E* row = there ? from.at(head / tokens.heads, head % tokens.heads, i) : nullptr;
    for (int64_t d = 0; d < in.width; ++d) y[d * in.positions] = there ? static_cast<T>(row[d]) : T{0};
    y[in.width * in.positions] = there ? T{1} : T{0};
  });
}

/// ỹ_i = [G_i; −G_i·o_i] / g_i of the queries, with G = ∂L/∂o; 0 for a query that sees no key.
template <class T, class E>
__global__ void load_cotangents(Tokens tokens, Factorised<T> in, Heads<const E> d_o, Heads<const E> o,
                                const T* denominator, Side<T> to) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool there) {
    T* y = to.y + head * in.rows() * in.positions + position;
    const T g = there ? denominator[head * tokens.count + i] : T{0}, inverse = g == 0 ? T{0} : 1 / g;
    const E* gradient = g == 0 ? nullptr : d_o.at(head / tokens.heads, head % tokens.heads, i);
    const E* out = g == 0 ? nullptr : o.at(head / tokens.heads, head % tokens.heads, i);
    T product = 0;
    for (int64_t d = 0; d < in.width; ++d) {
      y[d * in.positions] = g == 0 ? T{0} : static_cast<T>(gradient[d]) * inverse;
      if (g != 0) product += static_cast<T>(gradient[d]) * static_cast<T>(out[d]);
    }
    y[in.width * in.positions] = -product * inverse;
  });
}

/// ∂x = (∂x̂ − mean(∂x̂) − x̂·mean(∂x̂·x̂)) / std, a layer norm without gain, or ∂x̂ itself; 0 for padding.
template <class T, class E>
__global__ void store_gradients(Tokens tokens, Factorised<T> in, Side<T> side, const T* gradients, Heads<E> to,
                                bool standardised) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool there) {
    if (i < 0 || i >= tokens.count) return;
    const T* g = gradients + head * in.width * in.positions + position;
    const T* x = side.x_at(in, head, position);
    T mean = 0, slope = 0;
    if (standardised) {
      for (int64_t d = 0; d < in.width * in.positions; d += in.positions) {
        mean += g[d];
        slope += g[d] * x[d];
      }
      mean /= static_cast<T>(in.width);
      slope /= static_cast<T>(in.width);
    }
    const T inverse = side.inverse[head * in.positions + position];
    E* row = to.at(head / tokens.heads, head % tokens.heads, i);
    for (int64_t d = 0; d < in.width; ++d) {
      row[d] = there ? (g[d * in.positions] - mean - x[d * in.positions] * slope) * inverse : T{0};
    }
  });
}

}  // namespace linnet::cuda
