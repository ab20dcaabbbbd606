#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Shared by the kernels of additive attention (Wu et al. 2021, eqs. 3–6): the softmax weights of a tile of tokens,
/// and means under such weights.
///
/// Each pass is memory-bound: it reads q, k or v once, in memory order, all heads of a token together. A tile stays
/// in the cache while its scores, exponentials and sums are computed. Exponentials are vectorised over tokens and
/// heads together, so that few heads fill the vector registers too.

namespace linnet::cpu::LINNET_ISA::additive {

/// Tokens of a tile.
constexpr int64_t kTile = 64;

/// Tokens [begin, end) of heads [head, head + heads) of sequence b.
struct HeadChunk {
  int64_t b, head, heads, begin, end;
};

/// The rows of a chunk's heads in x [B, H, N, D]: `rows(i, h)` is token i of the sequence, head h of the chunk.
template <class T>
struct ChunkRows {
  T* data;
  int64_t token, head;

  ChunkRows(const View& x, const HeadChunk& chunk)
      : data(static_cast<T*>(x.data) + chunk.b * x.strides[0] + chunk.head * x.strides[1]),
        token(x.strides[2]),
        head(x.strides[1]) {}
  T* operator()(int64_t i, int64_t h) const { return data + i * token + h * head; }
};

/// Tells which tokens of one sequence are not padding.
struct PaddingMask {
  const bool* data = nullptr;
  int64_t stride = 0;

  PaddingMask(const View* padding_mask, int64_t b) {
    if (padding_mask == nullptr) return;
    data = static_cast<const bool*>(padding_mask->data) + b * padding_mask->strides[0];
    stride = padding_mask->strides[1];
  }
  bool operator()(int64_t i) const { return data == nullptr || data[i * stride]; }
  /// The first token that is not padding, or `tokens`.
  int64_t first(int64_t tokens) const {
    int64_t i = 0;
    while (i < tokens && !(*this)(i)) ++i;
    return i;
  }
};

/// Softmax-weighted means over tokens, for some heads: the mean [heads, D], the largest score m, z = Σ e^{s − m}, and
/// `kept`, the sum of the weights after dropout (1 without). A view of `size` numbers.
template <class T>
struct PooledMean {
  T *mean, *maximum, *total, *kept;

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 3); }
  PooledMean(T* data, int64_t heads, int64_t width)
      : mean(data), maximum(mean + heads * width), total(maximum + heads), kept(total + heads) {}
  /// The heads from `h` on.
  PooledMean from(int64_t h, int64_t width) const {
    PooledMean rest = *this;
    rest.mean += h * width;
    for (T** x : {&rest.maximum, &rest.total, &rest.kept}) *x += h;
    return rest;
  }

  void clear(int64_t heads, int64_t width) const {
    std::fill_n(mean, heads * width, T{0});
    std::fill_n(maximum, heads, std::numeric_limits<T>::lowest());
    std::fill_n(total, heads, T{0});
    std::fill_n(kept, heads, T{0});
  }
  void copy_to(const PooledMean& other, int64_t heads, int64_t width) const {
    std::copy_n(mean, heads * width, other.mean);
    std::copy_n(maximum, heads, other.maximum);
    std::copy_n(total, heads, other.total);
    std::copy_n(kept, heads, other.kept);
  }
  /// Turns sums over the tokens into means.
  void divide(int64_t heads, int64_t width) const {
    for (int64_t h = 0; h < heads; ++h) {
      const T inverse = total[h] == 0 ? T{0} : 1 / total[h];
      kept[h] *= inverse;
      for (int64_t d = h * width; d < (h + 1) * width; ++d) mean[d] *= inverse;
    }
  }
  /// Adds the tokens of `other`.
  void merge(const PooledMean& other, int64_t heads, int64_t width) const {
    for (int64_t h = 0; h < heads; ++h) {
      const T m = std::max(maximum[h], other.maximum[h]);
      const T mine = std::exp(maximum[h] - m) * total[h], its = std::exp(other.maximum[h] - m) * other.total[h];
      const T z = mine + its;
      const T a = z == 0 ? T{0} : mine / z, b = z == 0 ? T{0} : its / z;
      for (int64_t d = h * width; d < (h + 1) * width; ++d) mean[d] = a * mean[d] + b * other.mean[d];
      kept[h] = a * kept[h] + b * other.kept[h];
      maximum[h] = m;
      total[h] = z;
    }
  }
};

/// Dropout of the weights of one stage (0: α, 1: β): factors 0 or 1/(1 − rate).
struct Dropout {
  double rate;
  RandomKey key;
  int64_t all_heads, tokens;

  /// Multiplies x [n, heads], the weights of tokens from `begin` on, by their factors.
  template <class T>
  void apply(T* x, const HeadChunk& chunk, int64_t begin, int64_t n) const {
    const uint64_t threshold = keep_threshold(1 - rate);
    const T scale = static_cast<T>(1 / (1 - rate));
    for (int64_t h = 0; h < chunk.heads; ++h) {
      const auto first = static_cast<uint64_t>((chunk.b * all_heads + chunk.head + h) * tokens + begin);
      PhiloxBlock block = philox(key, first / 4);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t element = first + static_cast<uint64_t>(i);
        if (element % 4 == 0) block = philox(key, element / 4);
        x[i * chunk.heads + h] *= block.word[element % 4] < threshold ? scale : T{0};
      }
    }
  }
};

/// The softmax weights of a tile's tokens, each array [kTile, heads].
template <class T>
class TileWeights {
  int64_t heads_;
  Scratch<T> memory_;

 public:
  T* score;             ///< s_i = w·x_i; −∞ for padding
  T *rescale, *weight;  ///< mean_i = rescale_i·mean_{i−1} + weight_i·x_i, when nothing is dropped
  T* value_weight;      ///< weight_i after dropout
  T *maximum, *total;   ///< m_{i−1} and z_{i−1} [kTile + 1, heads]; row 0 is from before the tile

  explicit TileWeights(int64_t heads)
      : heads_(heads),
        memory_((6 * kTile + 2) * heads),
        score(memory_.data()),
        rescale(score + kTile * heads),
        weight(rescale + kTile * heads),
        value_weight(weight + kTile * heads),
        maximum(value_weight + kTile * heads),
        total(maximum + (kTile + 1) * heads) {}

  /// Scores s_i = w·x_i of tokens [begin, begin + n), with x_i = row(i − begin, h) and w [heads, D].
  template <class Width, class Row>
  void set_scores(Row&& row, const T* w, const PaddingMask& padding_mask, int64_t begin, int64_t n,
                  Width width) const {
    for (int64_t i = 0; i < n; ++i) {
      T* s = score + i * heads_;
      if (!padding_mask(begin + i)) {
        std::fill_n(s, heads_, -std::numeric_limits<T>::infinity());
        continue;
      }
      for (int64_t h = 0; h < heads_; ++h) {
        const T* x = row(i, h);
        const T* w_h = w + h * width;
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < width; ++d) sum += w_h[d] * x[d];
        s[h] = sum;
      }
    }
  }

  /// The softmax weight of each token over the prefix that ends with it.      [Fastformer eq.3] [Fastformer eq.5]
  ///   m_i = max(m_{i−1}, s_i),  z_i = e^{m_{i−1} − m_i} z_{i−1} + e^{s_i − m_i},
  ///   rescale_i = e^{m_{i−1} − m_i} z_{i−1} / z_i,  weight_i = e^{s_i − m_i} / z_i
  /// No exponential is above 1, and nothing cancels. Starts from the m and z of `pool`, and updates them.
  void weigh_prefixes(const PooledMean<T>& pool, int64_t n, const Dropout& dropout, const HeadChunk& chunk,
                      int64_t begin) const {
    std::copy_n(pool.maximum, heads_, maximum);
    std::copy_n(pool.total, heads_, total);
    for (int64_t at = 0; at < n * heads_; ++at) {
      maximum[at + heads_] = score[at] > maximum[at] ? score[at] : maximum[at];
    }
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) {
      rescale[at] = vec::exp(maximum[at] - maximum[at + heads_]);
      weight[at] = vec::exp(score[at] - maximum[at + heads_]);
    }
    for (int64_t at = 0; at < n * heads_; ++at) total[at + heads_] = total[at] * rescale[at] + weight[at];
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) {
      const T z = total[at + heads_];
      rescale[at] = z == 0 ? T{0} : rescale[at] * total[at] / z;
      weight[at] = z == 0 ? T{0} : weight[at] / z;
    }
    drop(n, dropout, chunk, begin);
    std::copy_n(maximum + n * heads_, heads_, pool.maximum);
    std::copy_n(total + n * heads_, heads_, pool.total);
  }

  /// Weights e^{s_i − m} of a whole tile, with m the largest score so far. Updates m, z and kept of `pool`; the
  /// caller multiplies the earlier sums by row 0 of `rescale`, e^{m_before − m}, and adds the tile's.
  ///                                                                        [Fastformer eq.3] [Fastformer eq.5]
  void weigh_sums(const PooledMean<T>& pool, int64_t n, const Dropout& dropout, const HeadChunk& chunk,
                  int64_t begin) const {
    std::copy_n(pool.maximum, heads_, maximum);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        if (score[i * heads_ + h] > pool.maximum[h]) pool.maximum[h] = score[i * heads_ + h];
      }
    }
    for (int64_t h = 0; h < heads_; ++h) rescale[h] = vec::exp(maximum[h] - pool.maximum[h]);
    set_powers(pool, n);
    drop(n, dropout, chunk, begin);
    for (int64_t h = 0; h < heads_; ++h) {
      T all = 0, kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        all += weight[i * heads_ + h];
        kept += value_weight[i * heads_ + h];
      }
      pool.total[h] = rescale[h] * pool.total[h] + all;
      pool.kept[h] = rescale[h] * pool.kept[h] + kept;
    }
  }

  /// Softmax weights over the whole sequence, whose m and z are in `pool`.
  void weigh_all(const PooledMean<T>& pool, int64_t n, const Dropout& dropout, const HeadChunk& chunk,
                 int64_t begin) const {
    set_powers(pool, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        weight[i * heads_ + h] = pool.total[h] == 0 ? T{0} : weight[i * heads_ + h] / pool.total[h];
      }
    }
    drop(n, dropout, chunk, begin);
  }

 private:
  /// e^{s_i − m}
  void set_powers(const PooledMean<T>& pool, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) score[i * heads_ + h] -= pool.maximum[h];
    }
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) weight[at] = vec::exp(score[at]);
  }

  void drop(int64_t n, const Dropout& dropout, const HeadChunk& chunk, int64_t begin) const {
    std::copy_n(weight, n * heads_, value_weight);
    if (dropout.rate > 0) dropout.apply(value_weight, chunk, begin, n);
  }
};

}  // namespace linnet::cpu::LINNET_ISA::additive

namespace linnet::cpu::LINNET_ISA {

// The causal form of the kernels in additive_attention.cpp.
void causal_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& in);
void causal_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                        const AdditiveAttentionInputs& in);

}  // namespace linnet::cpu::LINNET_ISA
