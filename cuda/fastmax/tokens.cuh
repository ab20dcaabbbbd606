#pragma once

#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/random_byte.cuh>
#include <linnet/cuda/fastmax/features.cuh>

/// Conversion of tensors [B, H, N, D] of elements E to the sides of the factorised form in T, and back. One thread
/// handles a token, whose row stays in the L1 cache meanwhile. Memory bounds these kernels.

namespace linnet::cuda {

/// The tokens of one side and their positions. Tokens before `first` and padding do not count.
struct Tokens {
  int64_t heads;  ///< heads of a sequence
  int64_t all_heads, positions;
  FirstQuery first;
  int64_t count, shift;
  PaddingMask padding_mask;

  __device__ bool has(int64_t head, int64_t i) const {
    return i >= first.of(head / heads) && i < count && padding_mask.has(head / heads, i);
  }
};

/// Calls `f(head, position, i, exists)` for each position of each head; `exists` says whether token i counts.
template <class F>
__device__ void for_each_token(const Tokens& tokens, F f) {
  for (int64_t item = first_item(); item < tokens.all_heads * tokens.positions; item += item_step()) {
    const int64_t head = item / tokens.positions, position = item % tokens.positions, i = position - tokens.shift;
    f(head, position, i, tokens.has(head, i));
  }
}

/// x̃ = [x; 1], after the RowMap if there is one, and the factors of dropout of whole tokens if there is such
/// dropout.
template <class T, class E>
__global__ void load_vectors(Tokens tokens, FactorisedParams<T> in, HeadsView<const E> from, LoadedSide<T> to,
                             RowMap map, bool queries) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool exists) {
    const int64_t item = head * in.positions + position;
    T* x = to.x + head * in.entries() * in.positions + position;
    const E* elements = exists ? from.at(head / tokens.heads, head % tokens.heads, i) : nullptr;
    const auto row = [=](int64_t d) { return static_cast<T>(elements[d]); };
    T mean = 0, rest = 0, inverse = 1;  // rest: the rounding error of the mean, if it is large
    if (exists && map == RowMap::standardise) {
      const auto width = static_cast<T>(in.width);
      for (int64_t d = 0; d < in.width; ++d) mean += row(d);
      mean /= width;  // [FAST eq.5]
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
    const bool has_features = map == RowMap::elu_plus_one;
    if (exists && has_features && queries) {
      T total = 0;
      for (int64_t d = 0; d < in.width; ++d) total += elu_plus_one(row(d));
      inverse = 1 / total;
    }
    for (int64_t d = 0; d < in.width; ++d) {
      const T entry = !exists ? T{0} : has_features ? elu_plus_one(row(d)) : row(d) - mean - rest;
      x[d * in.positions] = entry * inverse;  // [FAST eq.6]
    }
    x[in.width * in.positions] = exists ? T{1} : T{0};
    to.inverse[item] = inverse;
    if (to.factor == nullptr) return;
    to.factor[item] = random_byte(to.key, item) < in.keep_of_256 ? static_cast<T>(256.0 / in.keep_of_256) : T{0};
  });
}

/// ỹ = [v; 1] of the keys.
template <class T, class E>
__global__ void load_values(Tokens tokens, FactorisedParams<T> in, HeadsView<const E> from, LoadedSide<T> to) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool exists) {
    T* y = to.y + head * in.entries() * in.positions + position;
    const E* row = exists ? from.at(head / tokens.heads, head % tokens.heads, i) : nullptr;
    for (int64_t d = 0; d < in.width; ++d) y[d * in.positions] = exists ? static_cast<T>(row[d]) : T{0};
    y[in.width * in.positions] = exists ? T{1} : T{0};
  });
}

/// ỹ_i = [G_i; −G_i·o_i] / g_i of the queries, with G = ∂L/∂o: the gradient of [FAST eq.19]. 0 for a query that sees
/// no key.
template <class T, class E>
__global__ void load_cotangents(Tokens tokens, FactorisedParams<T> in, HeadsView<const E> d_o, HeadsView<const E> o,
                                const T* denominator, LoadedSide<T> to) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool exists) {
    T* y = to.y + head * in.entries() * in.positions + position;
    const T g = exists ? denominator[head * tokens.count + i] : T{0}, inverse = g == 0 ? T{0} : 1 / g;
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

/// ∂x = (∂x̂ − mean(∂x̂) − x̂·mean(∂x̂·x̂)) / std, the gradient of [FAST eq.5] and [FAST eq.6]. For elu + 1 it is the
/// formula of differentiate_elu_rows, and without a RowMap ∂x̂ itself. 0 for padding.
template <class T, class E>
__global__ void store_gradients(Tokens tokens, FactorisedParams<T> in, LoadedSide<T> side, const T* gradients,
                                HeadsView<E> to, RowMap map) {
  for_each_token(tokens, [&](int64_t head, int64_t position, int64_t i, bool exists) {
    if (i < 0 || i >= tokens.count) return;
    const T* g = gradients + head * in.width * in.positions + position;
    const T* x = side.x_at(in, head, position);
    T mean = 0, slope = 0;
    if (map == RowMap::standardise) {
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
      const T entry = x[d * in.positions];
      const T factor = map == RowMap::elu_plus_one ? min(entry, inverse) : inverse;
      row[d] = exists ? (g[d * in.positions] - mean - entry * slope) * factor : T{0};
    }
  });
}

}  // namespace linnet::cuda
