#pragma once

#include <linnet/ops/cpu/fastformer/additive_tile.h>

/// Causal additive attention of a tile of tokens: Wu et al. 2021, eqs. 3–6, with each sum over the tokens up to i.

namespace linnet::cpu::LINNET_ISA::additive {

/// How far a backward pass goes.
enum class Reach {
  key,    ///< to the cotangents of the global keys
  query,  ///< to the cotangents of the global queries
  all,    ///< to all gradients
};

/// The cotangents that a chunk passes to the tokens before it, through mean_i = rescale_i mean_{i−1} + weight_i x_i.
/// With G_i = ∂L/∂mean_i: r_{i−1} = G_{i−1} + rescale_i r_i, t_{i−1} = G_{i−1}·mean_{i−1} + rescale_i t_i.
template <class T>
struct CarriedCotangents {
  T *r, *t, *rescale;  ///< [heads, D], [heads], [heads]; `rescale` is the product of the chunk's rescale_i

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 2); }
  CarriedCotangents(T* data, int64_t heads, int64_t width) : r(data), t(r + heads * width), rescale(t + heads) {}
  /// The heads from `h` on.
  CarriedCotangents from(int64_t h, int64_t width) const {
    CarriedCotangents rest = *this;
    rest.r += h * width;
    rest.t += h;
    rest.rescale += h;
    return rest;
  }
  void clear(int64_t heads, int64_t width) const {
    std::fill_n(r, heads * width, T{0});
    std::fill_n(t, heads, T{0});
    std::fill_n(rescale, heads, T{1});
  }
  void copy_to(const CarriedCotangents& other, int64_t heads, int64_t width) const {
    std::copy_n(r, heads * width, other.r);
    std::copy_n(t, heads, other.t);
    std::copy_n(rescale, heads, other.rescale);
  }
  /// Becomes what a chunk passes on when it receives `in` from the tokens after it; `own` is what it passes on when
  /// it receives nothing.
  void set_through(const CarriedCotangents& own, const CarriedCotangents& in, int64_t heads, int64_t width) const {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = h * width; d < (h + 1) * width; ++d) r[d] = own.r[d] + own.rescale[h] * in.r[d];
      t[h] = own.t[h] + own.rescale[h] * in.t[h];
    }
  }
};

/// The heads of one chunk, tile by tile.
template <class T, class Width>
class CausalTile {
 public:
  CausalTile(const AdditiveAttentionInputs& in, const HeadChunk& chunk, Width width)
      : chunk_(chunk),
        width_(width),
        add_(in.add),
        padding_mask_(in.padding_mask, chunk.b),
        first_kept_(padding_mask_.first(in.q.shape[2])),
        q_(in.q, chunk),
        k_(in.k, chunk),
        v_(in.v, chunk),
        memory_(2 * PooledMean<T>::size(chunk.heads, width) + (2 + 3 * kTile) * chunk.heads * width + chunk.heads),
        queries_(memory_.data(), chunk.heads, width),
        keys_(memory_.data() + PooledMean<T>::size(chunk.heads, width), chunk.heads, width),
        w_q_(memory_.data() + 2 * PooledMean<T>::size(chunk.heads, width)),
        w_k_(w_q_ + chunk.heads * width),
        query_means_(w_k_ + chunk.heads * width),
        p_(query_means_ + kTile * chunk.heads * width),
        key_means_(p_ + kTile * chunk.heads * width),
        ds_(key_means_ + kTile * chunk.heads * width),
        query_weights_(chunk.heads),
        key_weights_(chunk.heads),
        dropout_{dropout_of(in, 0), dropout_of(in, 1)} {
    copy_scaled(in.w_q, w_q_);
    copy_scaled(in.w_k, w_k_);
  }

  const HeadChunk& chunk() const { return chunk_; }
  /// The pools over all tokens before the tile, or up to its end once it is pooled.
  const PooledMean<T>& queries() const { return queries_; }
  const PooledMean<T>& keys() const { return keys_; }

  /// α_i = softmax_i(w_q·q_i/√D), q = Σ α_i q_i, over each prefix      [Fastformer eq.3] [Fastformer eq.4]
  void pool_queries(int64_t begin, int64_t n) {
    begin_ = begin;
    n_ = n;
    query_weights_.set_scores([&](int64_t i, int64_t h) { return q_(begin + i, h); }, w_q_, padding_mask_, begin, n,
                              width_);
    query_weights_.weigh_prefixes(queries_, n, dropout_[0], chunk_, begin);
    running_means([&](int64_t i, int64_t h) { return q_(begin + i, h); }, query_weights_, queries_.mean,
                  query_means_);
  }

  /// p_i = q ∘ k_i, β_i = softmax_i(w_k·p_i/√D), k = Σ β_i p_i, over each prefix  [Fastformer eq.5] [Fastformer eq.6]
  void pool_keys() {
    for (int64_t i = 0; i < n_; ++i) {
      if (!padding_mask_(begin_ + i)) continue;
      for (int64_t h = 0; h < chunk_.heads; ++h) {
        const T *query = row(query_means_, i, h), *x = k_(begin_ + i, h);
        T* p = row(p_, i, h);
        if (add_) {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) p[d] = query[d] + x[d];
        } else {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) p[d] = query[d] * x[d];
        }
      }
    }
    const auto p = [&](int64_t i, int64_t h) { return row(p_, i, h); };
    key_weights_.set_scores(p, w_k_, padding_mask_, begin_, n_, width_);
    key_weights_.weigh_prefixes(keys_, n_, dropout_[1], chunk_, begin_);
    running_means(p, key_weights_, keys_.mean, key_means_);
  }

  /// u_i = k ∘ v_i, or k + v_i
  void multiply(const View& u) const {
    const ChunkRows<T> out(u, chunk_);
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t next = begin_ + i + kTile;
      if (next < chunk_.end) {
        for (const ChunkRows<T>* x : {&q_, &k_, &v_}) prefetch(*x, next);
      }
      for (int64_t h = 0; h < chunk_.heads; ++h) {
        const T *key = row(key_means_, i, h), *x = v_(begin_ + i, h);
        T* y = out(begin_ + i, h);
        if (is_empty(i)) {
          std::fill_n(y, static_cast<int64_t>(width_), T{0});
        } else if (add_) {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) y[d] = key[d] + x[d];
        } else {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) y[d] = key[d] * x[d];
        }
      }
    }
  }

  /// Backward, from the tile's last token to its first; adds to dw_q and dw_k [heads, D]. Each token is done for all
  /// heads before the next token, because a head's steps depend on each other.
  template <Reach reach>
  void reverse(const AdditiveAttentionGradients& out, const View& du, const CarriedCotangents<T>& key,
               const CarriedCotangents<T>& query, T* dw_q, T* dw_k) const {
    const ChunkRows<T> g(du, chunk_), dq(out.dq, chunk_), dk(out.dk, chunk_), dv(out.dv ? *out.dv : out.dq, chunk_);
    for (int64_t i = n_ - 1; i >= 0; --i) {
      const int64_t next = begin_ + i - kTile;
      if (next >= chunk_.begin) {
        for (const ChunkRows<T>* x : {&q_, &k_, &v_, &g}) prefetch(*x, next);
      }
      const bool kept = padding_mask_(begin_ + i);
      if (reach == Reach::all && !kept) {
        for (const ChunkRows<T>* x : {&dq, &dk, &dv}) clear_row(*x, i);
      }
      if (is_empty(i)) continue;  // as are all tokens before it
      value_backward<reach>(g, dv, key, i);
      if (reach == Reach::key) continue;
      if (kept) {
        key_backward<reach>(dk, key, query, i, dw_k);
        if (reach == Reach::all) query_backward(dq, out.dv == nullptr, query, i, dw_q);
      } else {
        rescale(query, query_weights_, i + 1);
      }
    }
    rescale(key, key_weights_, 0);
    rescale(query, query_weights_, 0);
  }

 private:
  T* row(T* x, int64_t i, int64_t h) const { return x + (i * chunk_.heads + h) * width_; }
  /// Whether all tokens up to i are padding.
  bool is_empty(int64_t i) const { return begin_ + i < first_kept_; }

  static Dropout dropout_of(const AdditiveAttentionInputs& in, int stage) {
    return {in.dropout, in.dropout_rng[stage], in.q.shape[1], in.q.shape[2]};
  }

  void copy_scaled(const View& w, T* to) const {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(w.shape[1])));
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      for (int64_t d = 0; d < width_; ++d) {
        to[h * width_ + d] = scale * data<T>(w)[(chunk_.head + h) * w.strides[0] + d * w.strides[1]];
      }
    }
  }

  /// means_i = rescale_i means_{i−1} + weight_i x_i for the tile's tokens; `mean` holds the last one, before and
  /// after.
  ///                                                            [Fastformer eq.4] [Fastformer eq.6], causal
  template <class Row>
  void running_means(Row&& x, const TileWeights<T>& weights, T* mean, T* means) const {
    for (int64_t i = 0; i < n_; ++i) {
      const bool kept = padding_mask_(begin_ + i);
      for (int64_t h = 0; h < chunk_.heads; ++h) {
        T *to = row(means, i, h), *last = mean + h * width_;
        if (kept) {
          const T rescale = weights.rescale[i * chunk_.heads + h],
                  weight = weights.value_weight[i * chunk_.heads + h];
          const T* from = x(i, h);
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) last[d] = rescale * last[d] + weight * from[d];
        }
        std::copy_n(last, static_cast<int64_t>(width_), to);
      }
    }
  }

  /// Prefetches a row of the next tile: the hardware prefetcher does not predict it.
  [[gnu::always_inline]] void prefetch(const ChunkRows<T>& x, int64_t i) const {
    for (int64_t h = 0; h < chunk_.heads; ++h) fetch(x(i, h), width_);
  }
  void clear_row(const ChunkRows<T>& x, int64_t i) const {
    for (int64_t h = 0; h < chunk_.heads; ++h) std::fill_n(x(begin_ + i, h), static_cast<int64_t>(width_), T{0});
  }

  /// rescale_i, the factor of r and t on their way from token i to the token before. Token n_ belongs to the next
  /// tile, which has applied its factor already.
  T rescale_of(const TileWeights<T>& weights, int64_t i, int64_t h) const {
    return i < n_ ? weights.rescale[i * chunk_.heads + h] : T{1};
  }
  void rescale(const CarriedCotangents<T>& carry, const TileWeights<T>& weights, int64_t i) const {
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      const T factor = rescale_of(weights, i, h);
      T* r = carry.r + h * width_;
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) r[d] *= factor;
      carry.t[h] *= factor;
      carry.rescale[h] *= factor;
    }
  }

  /// Backward of u_i = k ∘ v_i: r and t of the global key for token i, and dv.
  template <Reach reach>
  void value_backward(const ChunkRows<T>& du, const ChunkRows<T>& dvalue, const CarriedCotangents<T>& key,
                      int64_t i) const {
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      const T *mean = row(key_means_, i, h), *x = v_(begin_ + i, h), *g = du(begin_ + i, h);
      const T factor = rescale_of(key_weights_, i + 1, h);
      T *r = key.r + h * width_, *dv = dvalue(begin_ + i, h);
      T t = 0;
      if (add_) {
#pragma omp simd reduction(+ : t)
        for (int64_t d = 0; d < width_; ++d) {
          r[d] = factor * r[d] + g[d];
          t += g[d] * mean[d];
          if (reach == Reach::all) dv[d] = g[d];
        }
      } else {
#pragma omp simd reduction(+ : t)
        for (int64_t d = 0; d < width_; ++d) {
          const T product = g[d] == 0 ? T{0} : g[d] * x[d];  // x may be NaN in padding
          r[d] = factor * r[d] + product;
          t += product * mean[d];
          if (reach == Reach::all) dv[d] = g[d] * mean[d];
        }
      }
      key.t[h] = factor * key.t[h] + t;
      key.rescale[h] *= factor;
    }
  }

  /// ds_ = ∂s_i = value_weight_i x_i·r − weight_i t for every head, with value_weight_i = weight_i after dropout.
  ///                                               the gradient of [Fastformer eq.3] [Fastformer eq.5]
  template <class Row>
  void set_score_gradients(Row&& x, const CarriedCotangents<T>& carry, const TileWeights<T>& weights,
                           int64_t i) const {
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      const T *from = x(h), *r = carry.r + h * width_;
      T product = 0;
#pragma omp simd reduction(+ : product)
      for (int64_t d = 0; d < width_; ++d) product += from[d] * r[d];
      const int64_t at = i * chunk_.heads + h;
      ds_[h] = weights.value_weight[at] * product - weights.weight[at] * carry.t[h];
    }
  }

  /// Backward of k = Σ β_i p_i and p_i = q ∘ k_i: dk, dw_k, and r and t of the global query for token i.
  ///                                               the gradient of [Fastformer eq.5] [Fastformer eq.6]
  template <Reach reach>
  void key_backward(const ChunkRows<T>& dkey, const CarriedCotangents<T>& key, const CarriedCotangents<T>& query,
                    int64_t i, T* dw_k) const {
    set_score_gradients([&](int64_t h) { return row(p_, i, h); }, key, key_weights_, i);
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      const T *p = row(p_, i, h), *mean = row(query_means_, i, h), *x = k_(begin_ + i, h);
      const T *r = key.r + h * width_, *w = w_k_ + h * width_;
      const T ds = ds_[h], weight = key_weights_.value_weight[i * chunk_.heads + h];
      const T factor = rescale_of(query_weights_, i + 1, h);
      T *next = query.r + h * width_, *dk = dkey(begin_ + i, h), *dw = dw_k + h * width_;
      T t = 0;
      if (add_) {
#pragma omp simd reduction(+ : t)
        for (int64_t d = 0; d < width_; ++d) {
          const T dp = weight * r[d] + ds * w[d];
          next[d] = factor * next[d] + dp;
          t += dp * mean[d];
          if (reach == Reach::all) {
            dk[d] = dp;
            dw[d] += ds * p[d];
          }
        }
      } else {
#pragma omp simd reduction(+ : t)
        for (int64_t d = 0; d < width_; ++d) {
          const T dp = weight * r[d] + ds * w[d];
          const T dquery = dp * x[d];
          next[d] = factor * next[d] + dquery;
          t += dquery * mean[d];
          if (reach == Reach::all) {
            dk[d] = dp * mean[d];
            dw[d] += ds * p[d];
          }
        }
      }
      query.t[h] = factor * query.t[h] + t;
      query.rescale[h] *= factor;
    }
  }

  /// Backward of q = Σ α_i q_i: dq and dw_q. If v is q, dq already has the gradient through u_i.
  ///                                               the gradient of [Fastformer eq.3] [Fastformer eq.4]
  void query_backward(const ChunkRows<T>& dquery, bool accumulate, const CarriedCotangents<T>& query, int64_t i,
                      T* dw_q) const {
    set_score_gradients([&](int64_t h) { return q_(begin_ + i, h); }, query, query_weights_, i);
    for (int64_t h = 0; h < chunk_.heads; ++h) {
      const T *x = q_(begin_ + i, h), *r = query.r + h * width_, *w = w_q_ + h * width_;
      const T ds = ds_[h], weight = query_weights_.value_weight[i * chunk_.heads + h];
      T *dq = dquery(begin_ + i, h), *dw = dw_q + h * width_;
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) {
        dq[d] = (accumulate ? dq[d] : T{0}) + weight * r[d] + ds * w[d];
        dw[d] += ds * x[d];
      }
    }
  }

  HeadChunk chunk_;
  Width width_;
  bool add_;
  PaddingMask padding_mask_;
  int64_t first_kept_;
  ChunkRows<T> q_, k_, v_;
  Scratch<T> memory_;  // holds all of the following
  PooledMean<T> queries_, keys_;
  T *w_q_, *w_k_;                     // [heads, D], divided by √D
  T *query_means_, *p_, *key_means_;  // [kTile, heads, D]
  T* ds_;                             // [heads]
  TileWeights<T> query_weights_, key_weights_;
  Dropout dropout_[2];
  int64_t begin_ = 0, n_ = 0;
};

}  // namespace linnet::cpu::LINNET_ISA::additive
