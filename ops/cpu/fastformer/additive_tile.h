#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// What the kernels of additive attention share (Wu et al. 2021, eqs. 3–6): the softmax weights of a tile of tokens,
/// and running means under such weights.
///
/// Each pass is bound by memory: it reads a column once, in the order in which its tokens lie, with all the heads of
/// a token together. A tile goes through its phases (scores, powers, sums) while it stays in the cache; the powers
/// are taken for all tokens and heads at once, so that few heads fill the vector units too.

namespace linnet::cpu::LINNET_ISA::additive {

/// Tokens of a tile.
constexpr int64_t kTile = 64;

/// Tokens [begin, end) of heads [head, head + heads) of sequence b.
struct Piece {
  int64_t b, head, heads, begin, end;
};

/// The heads of a piece in [B, H, N, D]: the row of its head h and the sequence's token i.
template <class T>
struct Rows {
  T* data;
  int64_t token, head;

  Rows(const View& x, const Piece& piece)
      : data(static_cast<T*>(x.data) + piece.b * x.strides[0] + piece.head * x.strides[1]),
        token(x.strides[2]),
        head(x.strides[1]) {}
  T* operator()(int64_t i, int64_t h) const { return data + i * token + h * head; }
};

/// Which tokens of a sequence are no padding.
struct PaddingMask {
  const bool* data = nullptr;
  int64_t stride = 0;

  PaddingMask(const View* padding_mask, int64_t b) {
    if (padding_mask == nullptr) return;
    data = static_cast<const bool*>(padding_mask->data) + b * padding_mask->strides[0];
    stride = padding_mask->strides[1];
  }
  bool operator()(int64_t i) const { return data == nullptr || data[i * stride]; }
  /// The first token that is none, or `tokens`.
  int64_t first(int64_t tokens) const {
    int64_t i = 0;
    while (i < tokens && !(*this)(i)) ++i;
    return i;
  }
};

/// A softmax-weighted mean over tokens, for each of some heads: the mean, the largest score m, z = Σ e^{s − m}, and
/// the part of the weights that dropout has left, 1 without. A view of memory that `size` counts.
template <class T>
struct Pool {
  T *mean, *maximum, *total, *kept;

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 3); }
  Pool(T* data, int64_t heads, int64_t width)
      : mean(data), maximum(mean + heads * width), total(maximum + heads), kept(total + heads) {}
  /// From head `h` on.
  Pool from(int64_t h, int64_t width) const {
    Pool part = *this;
    part.mean += h * width;
    for (T** x : {&part.maximum, &part.total, &part.kept}) *x += h;
    return part;
  }

  void clear(int64_t heads, int64_t width) const {
    std::fill_n(mean, heads * width, T{0});
    std::fill_n(maximum, heads, std::numeric_limits<T>::lowest());
    std::fill_n(total, heads, T{0});
    std::fill_n(kept, heads, T{0});
  }
  void copy_to(const Pool& other, int64_t heads, int64_t width) const {
    std::copy_n(mean, heads * width, other.mean);
    std::copy_n(maximum, heads, other.maximum);
    std::copy_n(total, heads, other.total);
    std::copy_n(kept, heads, other.kept);
  }
  /// From sums over the tokens to means.
  void divide(int64_t heads, int64_t width) const {
    for (int64_t h = 0; h < heads; ++h) {
      const T inverse = total[h] == 0 ? T{0} : 1 / total[h];
      kept[h] *= inverse;
      for (int64_t d = h * width; d < (h + 1) * width; ++d) mean[d] *= inverse;
    }
  }
  /// Takes in the tokens of `other`.
  void merge(const Pool& other, int64_t heads, int64_t width) const {
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

/// The factors that dropout gives the weights of one stage: 0 or 1/(1 − rate).
struct Dropout {
  double rate;
  RandomKey key;
  int64_t all_heads, tokens;

  /// Multiplies x [n, heads], the weights of tokens from `begin`.
  template <class T>
  void apply(T* x, const Piece& piece, int64_t begin, int64_t n) const {
    const uint64_t threshold = keep_threshold(1 - rate);
    const T scale = static_cast<T>(1 / (1 - rate));
    for (int64_t h = 0; h < piece.heads; ++h) {
      const auto first = static_cast<uint64_t>((piece.b * all_heads + piece.head + h) * tokens + begin);
      PhiloxBlock block = philox(key, first / 4);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t element = first + static_cast<uint64_t>(i);
        if (element % 4 == 0) block = philox(key, element / 4);
        x[i * piece.heads + h] *= block.word[element % 4] < threshold ? scale : T{0};
      }
    }
  }
};

/// The softmax weights of a tile's tokens, each array [kTile, heads].
template <class T>
class Weights {
  int64_t heads_;
  Scratch<T> memory_;

 public:
  T* score;            ///< s_i = w·x_i; −∞ for padding
  T *fade, *weight;    ///< mean_i = fade_i·mean_{i−1} + weight_i·x_i, when nothing is dropped
  T* value_weight;     ///< weight_i after dropout
  T *maximum, *total;  ///< m_{i−1} and z_{i−1}: one row more than tokens, the first from before the tile

  explicit Weights(int64_t heads)
      : heads_(heads),
        memory_((6 * kTile + 2) * heads),
        score(memory_.data()),
        fade(score + kTile * heads),
        weight(fade + kTile * heads),
        value_weight(weight + kTile * heads),
        maximum(value_weight + kTile * heads),
        total(maximum + (kTile + 1) * heads) {}

  /// Scores of tokens [begin, begin + n), of which `row(i, h)` is number i; `w` is [heads, width].
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

  /// Weights within the prefix that ends with each token. With the largest score and the sum so far,
  ///   m_i = max(m_{i−1}, s_i),  z_i = e^{m_{i−1} − m_i} z_{i−1} + e^{s_i − m_i},
  ///   fade_i = e^{m_{i−1} − m_i} z_{i−1} / z_i,  weight_i = e^{s_i − m_i} / z_i:
  /// no power is above 1, and nothing cancels. Goes on from `pool`, and leaves its m and z after the tile.
  void weigh_prefixes(const Pool<T>& pool, int64_t n, const Dropout& dropout, const Piece& piece,
                      int64_t begin) const {
    std::copy_n(pool.maximum, heads_, maximum);
    std::copy_n(pool.total, heads_, total);
    for (int64_t at = 0; at < n * heads_; ++at) {
      maximum[at + heads_] = score[at] > maximum[at] ? score[at] : maximum[at];
    }
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) {
      fade[at] = vec::exp(maximum[at] - maximum[at + heads_]);
      weight[at] = vec::exp(score[at] - maximum[at + heads_]);
    }
    for (int64_t at = 0; at < n * heads_; ++at) total[at + heads_] = total[at] * fade[at] + weight[at];
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) {
      const T z = total[at + heads_];
      fade[at] = z == 0 ? T{0} : fade[at] * total[at] / z;
      weight[at] = z == 0 ? T{0} : weight[at] / z;
    }
    drop(n, dropout, piece, begin);
    std::copy_n(maximum + n * heads_, heads_, pool.maximum);
    std::copy_n(total + n * heads_, heads_, pool.total);
  }

  /// Weights e^{s_i − m} for a pool that takes in the whole tile at once, with m the largest score so far. Row 0 of
  /// `fade` becomes what the sums before are multiplied with; those of the weights, z and kept, are taken in here.
  void weigh_sums(const Pool<T>& pool, int64_t n, const Dropout& dropout, const Piece& piece, int64_t begin) const {
    std::copy_n(pool.maximum, heads_, maximum);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        if (score[i * heads_ + h] > pool.maximum[h]) pool.maximum[h] = score[i * heads_ + h];
      }
    }
    for (int64_t h = 0; h < heads_; ++h) fade[h] = vec::exp(maximum[h] - pool.maximum[h]);
    set_powers(pool, n);
    drop(n, dropout, piece, begin);
    for (int64_t h = 0; h < heads_; ++h) {
      T all = 0, kept = 0;
      for (int64_t i = 0; i < n; ++i) {
        all += weight[i * heads_ + h];
        kept += value_weight[i * heads_ + h];
      }
      pool.total[h] = fade[h] * pool.total[h] + all;
      pool.kept[h] = fade[h] * pool.kept[h] + kept;
    }
  }

  /// Weights within the whole sequence, whose m and z `pool` holds.
  void weigh_all(const Pool<T>& pool, int64_t n, const Dropout& dropout, const Piece& piece, int64_t begin) const {
    set_powers(pool, n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        weight[i * heads_ + h] = pool.total[h] == 0 ? T{0} : weight[i * heads_ + h] / pool.total[h];
      }
    }
    drop(n, dropout, piece, begin);
  }

 private:
  /// e^{s_i − m}
  void set_powers(const Pool<T>& pool, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < heads_; ++h) score[i * heads_ + h] -= pool.maximum[h];
    }
#pragma omp simd
    for (int64_t at = 0; at < n * heads_; ++at) weight[at] = vec::exp(score[at]);
  }

  void drop(int64_t n, const Dropout& dropout, const Piece& piece, int64_t begin) const {
    std::copy_n(weight, n * heads_, value_weight);
    if (dropout.rate > 0) dropout.apply(value_weight, piece, begin, n);
  }
};

}  // namespace linnet::cpu::LINNET_ISA::additive

namespace linnet::cpu::LINNET_ISA {

// The causal form of the kernels of additive_attention.cpp.
void causal_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& problem);
void causal_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                        const AdditiveAttentionInputs& problem);

}  // namespace linnet::cpu::LINNET_ISA
