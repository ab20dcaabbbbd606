#include <algorithm>
#include <limits>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Additive pooling (Wu et al. 2021, eqs. 3–6) in one stable pass over the tokens. With m the largest score
/// so far,
///   m' = max(m, s_i),  z ← e^(m − m') z + e^(s_i − m'),  a ← e^(m − m') a + e^(s_i − m') x_i,  out = a / z.
/// [Fastformer eq.3] [Fastformer eq.4] of queries, [Fastformer eq.5] [Fastformer eq.6] of keys.
/// Causal pooling writes a result after each token, plain pooling only after the last one. They do not differ
/// otherwise.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// One head of one sequence.
struct Head {
  const View* padding_mask;
  int64_t b, h;

  /// Whether token `i` is in any sum: not when it is padding, nor when its score is −∞.
  template <class T>
  bool counts(int64_t i, T score) const {
    if (score == -std::numeric_limits<T>::infinity()) return false;
    return padding_mask == nullptr ||
           data<bool>(*padding_mask)[b * padding_mask->strides[0] + i * padding_mask->strides[1]];
  }
  /// Element or row `i` of this head in [B, H, N] or [B, H, N, D].
  template <class T>
  T* at(const View& x, int64_t i) const {
    return data<T>(x) + b * x.strides[0] + h * x.strides[1] + i * x.strides[2];
  }
};

template <class T>
void pool_head(const Head& head, const View& out, const View& maximum, const View& total, const View& scores,
               const View& x, bool causal) {
  const int64_t tokens = x.shape[2], width = x.shape[3];
  Scratch<T> memory(width);
  T* a = memory.data();
  std::fill_n(a, width, T{0});
  T m = -std::numeric_limits<T>::infinity();
  double z = 0;

  const auto write = [&](int64_t i) {
    *head.at<T>(maximum, i) = m;
    *head.at<T>(total, i) = static_cast<T>(z);
    const T inverse = z == 0 ? T{0} : static_cast<T>(1 / z);
    T* y = head.at<T>(out, i);
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) y[d] = a[d] * inverse;
  };

  for (int64_t i = 0; i < tokens; ++i) {
    const T s = *head.at<T>(scores, i);
    if (head.counts(i, s)) {
      const T before = m;
      m = s > m ? s : m;
      const T rescale = vec::exp(before - m), weight = vec::exp(s - m);
      z = z * rescale + weight;
      const T* row = head.at<T>(x, i);
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) a[d] = a[d] * rescale + row[d] * weight;
    }
    if (causal) write(i);
  }
  if (!causal) write(0);
}

/// The gradient of [Fastformer eq.3] [Fastformer eq.4] [Fastformer eq.5] [Fastformer eq.6].
/// In reverse, with L_i standing for the pair (m, z) after token i and G for the cotangent of out:
///   f = e^(L_i − L_{i+1}) ≤ 1,  r ← f r + G_i,  t ← f t + G_i·out_i,
///   ∂x_i = e^(s_i − L_i) r,  ∂s_i = e^(s_i − L_i) (x_i·r − t).
/// Before the first token that counts, where L is −∞, r and t are no longer used.
template <class T>
void pool_head_backward(const Head& head, const View& dscores, const View& dx, const View& dout, const View& out,
                        const View& maximum, const View& total, const View& scores, const View& x, bool causal) {
  const int64_t tokens = x.shape[2], width = x.shape[3];
  Scratch<T> memory(width);
  T* r = memory.data();
  std::fill_n(r, width, T{0});
  T t = 0, m_next = 0, z_next = 0;

  for (int64_t i = tokens - 1; i >= 0; --i) {
    const int64_t result = causal ? i : 0;
    const T m = *head.at<T>(maximum, result), z = *head.at<T>(total, result);
    T* dx_row = head.at<T>(dx, i);
    T* ds = head.at<T>(dscores, i);
    if (causal || i == tokens - 1) {
      const T rescale = i == tokens - 1 ? T{0} : vec::exp(m - m_next) * z / z_next;
      const T* g = head.at<T>(dout, result);
      const T* y = head.at<T>(out, result);
      T product = 0;
#pragma omp simd reduction(+ : product)
      for (int64_t d = 0; d < width; ++d) {
        r[d] = r[d] * rescale + g[d];
        product += g[d] * y[d];
      }
      t = t * rescale + product;
      m_next = m;
      z_next = z;
    }
    const T s = *head.at<T>(scores, i);
    if (!head.counts(i, s)) {
      std::fill_n(dx_row, width, T{0});
      *ds = 0;
      continue;
    }
    const T weight = vec::exp(s - m) / z;
    const T* row = head.at<T>(x, i);
    T product = 0;
#pragma omp simd reduction(+ : product)
    for (int64_t d = 0; d < width; ++d) {
      dx_row[d] = weight * r[d];
      product += row[d] * r[d];
    }
    *ds = weight * (product - t);
  }
}

/// Calls `pool(head)` for every head, on several threads.
template <class Pool>
void for_each_head(const View& x, const View* padding_mask, Pool&& pool) {
  const int64_t grain = std::max(kGrain / std::max(x.shape[2] * x.shape[3], int64_t{1}), int64_t{1});
  parallel_for(x.shape[0] * x.shape[1], grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pool(Head{padding_mask, i / x.shape[1], i % x.shape[1]});
  });
}

void attention_pool(View out, View maximum, View total, View scores, View x, const View* padding_mask, bool causal) {
  dispatch_floating(x.dtype, [&]<class T>(T) {
    for_each_head(x, padding_mask,
                  [&](const Head& head) { pool_head<T>(head, out, maximum, total, scores, x, causal); });
  });
}

void attention_pool_backward(View dscores, View dx, View dout, View out, View maximum, View total, View scores,
                             View x, const View* padding_mask, bool causal) {
  dispatch_floating(x.dtype, [&]<class T>(T) {
    for_each_head(x, padding_mask, [&](const Head& head) {
      pool_head_backward<T>(head, dscores, dx, dout, out, maximum, total, scores, x, causal);
    });
  });
}

}  // namespace

void fill_attention_pool(Backend& table) {
  table.attention_pool = attention_pool;
  table.attention_pool_backward = attention_pool_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
