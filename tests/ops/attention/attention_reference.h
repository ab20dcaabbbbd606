#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/near.h"

/// Shared by the tests of the attention ops: explicit N×N formulas in float64, and comparisons.

namespace linnet::test {

/// Whether query i sees key j in sequence b of the batch. The formulas below sum over these pairs. `sees` makes it
/// from an attention's options.
using Sees = std::function<bool(int64_t b, int64_t i, int64_t j)>;

/// Keys up to i + (M − N) if causal, except those that `padding_mask` hides.
inline Sees sees(int64_t queries, int64_t keys, bool causal, const Tensor& padding_mask = {}) {
  const std::vector<bool> kept = padding_mask.defined() ? padding_mask.to_vector<bool>() : std::vector<bool>();
  return [=](int64_t b, int64_t i, int64_t j) {
    return (!causal || j <= i + keys - queries) && (kept.empty() || kept[static_cast<size_t>(b * keys + j)]);
  };
}

/// o_i = sum_j weight(i, j) x_j / sum_j weight(i, j) over the keys seen, 0 when there are none; [B, H, N, D]
/// row-major.
inline std::vector<double> weighted_means(
    const std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>& weight, int64_t queries, const Tensor& x,
    const Sees& sees) {
  const std::vector<double> values = x.to_vector<double>();
  const Shape& size = x.shape();
  const int64_t keys = size[2], width = size[3];
  std::vector<double> out;
  for (int64_t b = 0; b < size[0]; ++b) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        double total = 0;
        std::vector<double> sum(static_cast<size_t>(width));
        for (int64_t j = 0; j < keys; ++j) {
          if (!sees(b, i, j)) continue;
          const double w = weight(b, h, i, j);
          total += w;
          for (int64_t d = 0; d < width; ++d) {
            sum[static_cast<size_t>(d)] +=
                w * values[static_cast<size_t>(((b * size[1] + h) * keys + j) * width + d)];
          }
        }
        for (const double s : sum) out.push_back(total == 0 ? 0 : s / total);
      }
    }
  }
  return out;
}

/// s_ij = scale · q_i·k_j
inline std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)> scores(const Tensor& q, const Tensor& k,
                                                                                double scale) {
  return [heads = q.shape()[1], n = q.shape()[2], m = k.shape()[2], width = q.shape()[3], a = q.to_vector<double>(),
          c = k.to_vector<double>(), scale](int64_t b, int64_t h, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) {
      sum += a[static_cast<size_t>(((b * heads + h) * n + i) * width + d)] *
             c[static_cast<size_t>(((b * heads + h) * m + j) * width + d)];
    }
    return scale * sum;
  };
}

inline Tensor normal(const Shape& shape, uint64_t seed, DType dtype = DType::float64) {
  Generator generator(seed);
  return randn(shape, generator, dtype);
}

/// Bool [B, N], true except at the given (sequence, token) pairs.
inline Tensor keep_all_but(int64_t batch, int64_t tokens, const std::vector<std::pair<int64_t, int64_t>>& padding) {
  Tensor padding_mask = ones({batch, tokens}, DType::boolean);
  for (const auto& [b, i] : padding) padding_mask.mutable_data<bool>()[static_cast<size_t>(b * tokens + i)] = false;
  return padding_mask;
}

/// x [B, H, N, D] with the tokens from `first` up to `last` of sequence `b` changed.
inline Tensor with_tokens(const Tensor& x, int64_t b, int64_t first, int64_t last, double value) {
  Tensor changed = x.detach().clone();
  changed.narrow(0, b, 1).narrow(2, first, last - first).fill_(value);
  return changed;
}

}  // namespace linnet::test
