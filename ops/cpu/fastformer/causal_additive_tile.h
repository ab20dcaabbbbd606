#pragma once

#include <linnet/ops/cpu/fastformer/additive_tile.h>

/// Causal additive attention of a tile of tokens (Wu et al. 2021, eqs. 3–6, with every sum over a token's prefix).

namespace linnet::cpu::LINNET_ISA::additive {

/// How far a backward walk goes.
enum class Reach {
  key,    ///< to the cotangent of the global keys
  query,  ///< to that of the global queries
  all,    ///< to all results
};

/// What the tokens of a piece leave for the tokens before them, of mean_i = fade_i mean_{i−1} + weight_i x_i: with
/// G_i the cotangent of mean_i,  r_{i−1} = G_{i−1} + fade_i r_i,  t_{i−1} = G_{i−1}·mean_{i−1} + fade_i t_i.
template <class T>
struct Carry {
  T *r, *t, *fade;  ///< `fade`: the product of the fades

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 2); }
  Carry(T* data, int64_t heads, int64_t width) : r(data), t(r + heads * width), fade(t + heads) {}
  /// From head `h` on.
  Carry from(int64_t h, int64_t width) const {
    Carry part = *this;
    part.r += h * width;
    part.t += h;
    part.fade += h;
    return part;
  }
  void clear(int64_t heads, int64_t width) const {
    std::fill_n(r, heads * width, T{0});
    std::fill_n(t, heads, T{0});
    std::fill_n(fade, heads, T{1});
  }
  void copy_to(const Carry& other, int64_t heads, int64_t width) const {
    std::copy_n(r, heads * width, other.r);
    std::copy_n(t, heads, other.t);
    std::copy_n(fade, heads, other.fade);
  }
  /// What leaves tokens that left `own` by themselves, when `in` reaches them from the tokens after.
  void set_through(const Carry& own, const Carry& in, int64_t heads, int64_t width) const {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = h * width; d < (h + 1) * width; ++d) r[d] = own.r[d] + own.fade[h] * in.r[d];
      t[h] = own.t[h] + own.fade[h] * in.t[h];
    }
  }
};

/// The heads of one piece, tile by tile.
template <class T, class Width>
class CausalTile {
 public:
  CausalTile(const AdditiveAttentionInputs& problem, const Piece& piece, Width width)
      : piece_(piece),
        width_(width),
        add_(problem.add),
        padding_mask_(problem.padding_mask, piece.b),
        first_kept_(padding_mask_.first(problem.q.shape[2])),
        q_(problem.q, piece),
        k_(problem.k, piece),
        v_(problem.v, piece),
        memory_(2 * Pool<T>::size(piece.heads, width) + (2 + 3 * kTile) * piece.heads * width + piece.heads),
        queries_(memory_.data(), piece.heads, width),
        keys_(memory_.data() + Pool<T>::size(piece.heads, width), piece.heads, width),
        w_q_(memory_.data() + 2 * Pool<T>::size(piece.heads, width)),
        w_k_(w_q_ + piece.heads * width),
        query_means_(w_k_ + piece.heads * width),
        p_(query_means_ + kTile * piece.heads * width),
        key_means_(p_ + kTile * piece.heads * width),
        ds_(key_means_ + kTile * piece.heads * width),
        query_weights_(piece.heads),
        key_weights_(piece.heads),
        dropout_{dropout_of(problem, 0), dropout_of(problem, 1)} {
    copy_scaled(problem.w_q, w_q_);
    copy_scaled(problem.w_k, w_k_);
  }

  const Piece& piece() const { return piece_; }
  /// Of all tokens before the tile, and after it once it is pooled.
  const Pool<T>& queries() const { return queries_; }
  const Pool<T>& keys() const { return keys_; }

  /// α_i = softmax_i(w_q·q_i/√D), q = Σ α_i q_i, over each prefix                       Eqs. 3 and 4
  void pool_queries(int64_t begin, int64_t n) {
    begin_ = begin;
    n_ = n;
    query_weights_.set_scores([&](int64_t i, int64_t h) { return q_(begin + i, h); }, w_q_, padding_mask_, begin, n,
                              width_);
    query_weights_.weigh_prefixes(queries_, n, dropout_[0], piece_, begin);
    running_means([&](int64_t i, int64_t h) { return q_(begin + i, h); }, query_weights_, queries_.mean,
                  query_means_);
  }

  /// p_i = q ∘ k_i, β_i = softmax_i(w_k·p_i/√D), k = Σ β_i p_i, likewise               Eqs. 5 and 6
  void pool_keys() {
    for (int64_t i = 0; i < n_; ++i) {
      if (!padding_mask_(begin_ + i)) continue;
      for (int64_t h = 0; h < piece_.heads; ++h) {
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
    key_weights_.weigh_prefixes(keys_, n_, dropout_[1], piece_, begin_);
    running_means(p, key_weights_, keys_.mean, key_means_);
  }

  /// u_i = k ∘ v_i
  void multiply(const View& u) const {
    const Rows<T> out(u, piece_);
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t next = begin_ + i + kTile;
      if (next < piece_.end) {
        for (const Rows<T>* x : {&q_, &k_, &v_}) prefetch(*x, next);
      }
      for (int64_t h = 0; h < piece_.heads; ++h) {
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

  /// Walks the tile backwards; dw_q and dw_k [heads, width] are added to. Each step is taken for all heads before the
  /// next one, because the steps of one head wait for each other.
  template <Reach reach>
  void reverse(const AdditiveAttentionGradients& out, const View& du, const Carry<T>& key, const Carry<T>& query,
               T* dw_q, T* dw_k) const {
    const Rows<T> g(du, piece_), dq(out.dq, piece_), dk(out.dk, piece_), dv(out.dv ? *out.dv : out.dq, piece_);
    for (int64_t i = n_ - 1; i >= 0; --i) {
      const int64_t next = begin_ + i - kTile;
      if (next >= piece_.begin) {
        for (const Rows<T>* x : {&q_, &k_, &v_, &g}) prefetch(*x, next);
      }
      const bool kept = padding_mask_(begin_ + i);
      if (reach == Reach::all && !kept) {
        for (const Rows<T>* x : {&dq, &dk, &dv}) clear_row(*x, i);
      }
      if (is_empty(i)) continue;  // so are all before
      value_backward<reach>(g, dv, key, i);
      if (reach == Reach::key) continue;
      if (kept) {
        key_backward<reach>(dk, key, query, i, dw_k);
        if (reach == Reach::all) query_backward(dq, out.dv == nullptr, query, i, dw_q);
      } else {
        fade(query, query_weights_, i + 1);
      }
    }
    fade(key, key_weights_, 0);
    fade(query, query_weights_, 0);
  }

 private:
  T* row(T* x, int64_t i, int64_t h) const { return x + (i * piece_.heads + h) * width_; }
  /// Whether nothing is left to sum up to token i.
  bool is_empty(int64_t i) const { return begin_ + i < first_kept_; }

  static Dropout dropout_of(const AdditiveAttentionInputs& problem, int stage) {
    return {problem.dropout, problem.dropout_rng[stage], problem.q.shape[1], problem.q.shape[2]};
  }

  void copy_scaled(const View& w, T* to) const {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(w.shape[1])));
    for (int64_t h = 0; h < piece_.heads; ++h) {
      for (int64_t d = 0; d < width_; ++d) {
        to[h * width_ + d] = scale * data<T>(w)[(piece_.head + h) * w.strides[0] + d * w.strides[1]];
      }
    }
  }

  /// `mean` after each token, into `means`, and after the last.
  template <class Row>
  void running_means(Row&& x, const Weights<T>& weights, T* mean, T* means) const {
    for (int64_t i = 0; i < n_; ++i) {
      const bool kept = padding_mask_(begin_ + i);
      for (int64_t h = 0; h < piece_.heads; ++h) {
        T *to = row(means, i, h), *last = mean + h * width_;
        if (kept) {
          const T fade = weights.fade[i * piece_.heads + h], weight = weights.value_weight[i * piece_.heads + h];
          const T* from = x(i, h);
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) last[d] = fade * last[d] + weight * from[d];
        }
        std::copy_n(last, static_cast<int64_t>(width_), to);
      }
    }
  }

  /// Asks for a row of the tile that comes next, while this one is computed: the cache cannot guess it.
  [[gnu::always_inline]] void prefetch(const Rows<T>& x, int64_t i) const {
    for (int64_t h = 0; h < piece_.heads; ++h) fetch(x(i, h), width_);
  }
  void clear_row(const Rows<T>& x, int64_t i) const {
    for (int64_t h = 0; h < piece_.heads; ++h) std::fill_n(x(begin_ + i, h), static_cast<int64_t>(width_), T{0});
  }

  /// What token i leaves for the one before, when it adds nothing. Rows n_ are those of the next tile, which has done
  /// it itself.
  T fade_of(const Weights<T>& weights, int64_t i, int64_t h) const {
    return i < n_ ? weights.fade[i * piece_.heads + h] : T{1};
  }
  void fade(const Carry<T>& carry, const Weights<T>& weights, int64_t i) const {
    for (int64_t h = 0; h < piece_.heads; ++h) {
      const T factor = fade_of(weights, i, h);
      T* r = carry.r + h * width_;
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) r[d] *= factor;
      carry.t[h] *= factor;
      carry.fade[h] *= factor;
    }
  }

  /// u_i = k ∘ v_i: adds its part of the global key's cotangent to what later tokens left, and writes dv.
  template <Reach reach>
  void value_backward(const Rows<T>& du, const Rows<T>& dvalue, const Carry<T>& key, int64_t i) const {
    for (int64_t h = 0; h < piece_.heads; ++h) {
      const T *mean = row(key_means_, i, h), *x = v_(begin_ + i, h), *g = du(begin_ + i, h);
      const T factor = fade_of(key_weights_, i + 1, h);
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
          const T product = g[d] * x[d];
          r[d] = factor * r[d] + product;
          t += product * mean[d];
          if (reach == Reach::all) dv[d] = g[d] * mean[d];
        }
      }
      key.t[h] = factor * key.t[h] + t;
      key.fade[h] *= factor;
    }
  }

  /// ∂s_i = weight_i x_i·r − undropped weight_i t, of mean_i = Σ weight_i x_i, into `ds_` for every head.
  template <class Row>
  void set_score_gradients(Row&& x, const Carry<T>& carry, const Weights<T>& weights, int64_t i) const {
    for (int64_t h = 0; h < piece_.heads; ++h) {
      const T *from = x(h), *r = carry.r + h * width_;
      T product = 0;
#pragma omp simd reduction(+ : product)
      for (int64_t d = 0; d < width_; ++d) product += from[d] * r[d];
      const int64_t at = i * piece_.heads + h;
      ds_[h] = weights.value_weight[at] * product - weights.weight[at] * carry.t[h];
    }
  }

  /// k = Σ β_i p_i and p_i = q ∘ k_i: dk, and the part of the global query's cotangent
  template <Reach reach>
  void key_backward(const Rows<T>& dkey, const Carry<T>& key, const Carry<T>& query, int64_t i, T* dw_k) const {
    set_score_gradients([&](int64_t h) { return row(p_, i, h); }, key, key_weights_, i);
    for (int64_t h = 0; h < piece_.heads; ++h) {
      const T *p = row(p_, i, h), *mean = row(query_means_, i, h), *x = k_(begin_ + i, h);
      const T *r = key.r + h * width_, *w = w_k_ + h * width_;
      const T ds = ds_[h], weight = key_weights_.value_weight[i * piece_.heads + h];
      const T factor = fade_of(query_weights_, i + 1, h);
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
      query.fade[h] *= factor;
    }
  }

  /// q = Σ α_i q_i: dq, on top of what u_i gave where v is q
  void query_backward(const Rows<T>& dquery, bool on_top, const Carry<T>& query, int64_t i, T* dw_q) const {
    set_score_gradients([&](int64_t h) { return q_(begin_ + i, h); }, query, query_weights_, i);
    for (int64_t h = 0; h < piece_.heads; ++h) {
      const T *x = q_(begin_ + i, h), *r = query.r + h * width_, *w = w_q_ + h * width_;
      const T ds = ds_[h], weight = query_weights_.value_weight[i * piece_.heads + h];
      T *dq = dquery(begin_ + i, h), *dw = dw_q + h * width_;
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) {
        dq[d] = (on_top ? dq[d] : T{0}) + weight * r[d] + ds * w[d];
        dw[d] += ds * x[d];
      }
    }
  }

  Piece piece_;
  Width width_;
  bool add_;
  PaddingMask padding_mask_;
  int64_t first_kept_;
  Rows<T> q_, k_, v_;
  Scratch<T> memory_;  // of all that follows
  Pool<T> queries_, keys_;
  T *w_q_, *w_k_;                     // [heads, width], over √D
  T *query_means_, *p_, *key_means_;  // [kTile, heads, width]
  T* ds_;                             // [heads]
  Weights<T> query_weights_, key_weights_;
  Dropout dropout_[2];
  int64_t begin_ = 0, n_ = 0;
};

}  // namespace linnet::cpu::LINNET_ISA::additive
