#include <cmath>

#include <linnet/ops/cpu/fastformer/additive_tile.h>

/// Additive attention over whole sequences (Wu et al. 2021, eqs. 3–6). The global vectors do not depend on the token,
/// so p_i = q ∘ k_i is never formed: w_k·p_i = (w_k ∘ q)·k_i and k = q ∘ Σ β_i k_i. Forward is one pass over each
/// column, and so is backward. A pass runs over spans of tokens on all threads; what it sums is kept for each span,
/// and added up in their order.

namespace linnet::cpu::LINNET_ISA {
namespace {

using namespace additive;

/// Elements of the tokens that one task handles.
constexpr int64_t kSpan = 65536;

template <class T, class Width>
class WholeSequences {
 public:
  WholeSequences(const View& pools, const AdditiveAttentionInputs& problem, Width width)
      : problem_(problem),
        pools_(data<T>(pools)),
        width_(width),
        batch_(problem.q.shape[0]),
        heads_(problem.q.shape[1]),
        tokens_(problem.q.shape[2]),
        channels_(heads_ * width),
        span_(std::max(kSpan / std::max(channels_ * kTile, int64_t{1}), int64_t{1}) * kTile),
        spans_(ceil_div(tokens_, span_)),
        w_q_(channels_),
        w_k_(batch_ * channels_),
        global_query_(batch_ * channels_),
        global_key_(batch_ * channels_) {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(problem.q.shape[3])));
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) w_q_[h * width_ + d] = scale * at(problem.w_q, h, d);
    }
    scale_ = scale;
  }

  void forward(const View& u) {
    // α_i = softmax_i(w_q·q_i/√D), q = Σ α_i q_i                                        Eqs. 3 and 4
    pool_all(0, problem_.q, w_q_.data(), 0);
    set_global_query();
    // β_i = softmax_i(w_k·p_i/√D), k = Σ β_i p_i                                        Eqs. 5 and 6
    pool_all(1, problem_.k, w_k_.data(), channels_);
    set_global_key();
    for_each_span([&](const Piece& piece, int64_t) { multiply(u, piece); });
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) {
    set_global_query();
    set_global_key();
    const Scratch<T> dkey(batch_ * channels_), dquery(batch_ * channels_);
    sum_spans(dkey.data(), [&](const Piece& piece, T* sum) { values_backward(out, du, piece, sum); });
    keys_backward(out, dkey.data(), dquery.data());
    queries_backward(out, du, dquery.data());
  }

 private:
  /// Of mean = Σ weight_i x_i, for every sequence: r for each channel, and for each head what is added to r·x_i, and
  /// r·mean.
  struct Cotangent {
    Scratch<T> r, offset, mean;
    Cotangent(int64_t channels, int64_t heads) : r(channels), offset(heads), mean(heads) {}
  };

  bool add() const { return problem_.add; }
  static T& at(const View& w, int64_t h, int64_t d) {
    return static_cast<T*>(w.data)[h * w.strides[0] + d * w.strides[1]];
  }
  void clear(const View& w) const {
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) at(w, h, d) = 0;
    }
  }
  /// Of stage 0 (the queries') or 1, for backward.
  Pool<T> pool(int stage, int64_t b) const {
    return {pools_ + (stage * batch_ + b) * Pool<T>::size(heads_, width_), heads_, width_};
  }
  Dropout dropout(int stage) const { return {problem_.dropout, problem_.dropout_rng[stage], heads_, tokens_}; }

  template <class F>
  void for_each_span(F&& f) const {
    const int64_t grain = std::max(kSpan / std::max(std::min(span_, tokens_) * channels_, int64_t{1}), int64_t{1});
    parallel_for(batch_ * spans_, grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t begin = task % spans_ * span_;
        f(Piece{task / spans_, 0, heads_, begin, std::min(begin + span_, tokens_)}, task);
      }
    });
  }

  /// sums [B, C] of what `f(piece, sum)` adds to its `sum` [C].
  template <class F>
  void sum_spans(T* sums, F&& f) const {
    Scratch<T> parts(batch_ * spans_ * channels_);
    for_each_span([&](const Piece& piece, int64_t task) {
      std::fill_n(&parts[task * channels_], channels_, T{0});
      f(piece, &parts[task * channels_]);
    });
    std::fill_n(sums, batch_ * channels_, T{0});
    for (int64_t task = 0; task < batch_ * spans_; ++task) {
      T* sum = sums + task / spans_ * channels_;
      for (int64_t c = 0; c < channels_; ++c) sum[c] += parts[task * channels_ + c];
    }
  }

  /// Pools a column into pool(stage, b); w is [C], that of sequence b at w + b·w_step.
  void pool_all(int stage, const View& x, const T* w, int64_t w_step) const {
    const int64_t size = Pool<T>::size(heads_, width_);
    Scratch<T> parts(batch_ * spans_ * size);
    for_each_span([&](const Piece& piece, int64_t task) {
      const Pool<T> part(&parts[task * size], heads_, width_);
      part.clear(heads_, width_);
      pool_span(stage, Rows<T>(x, piece), w + piece.b * w_step, part, piece);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      pool(stage, b).clear(heads_, width_);
      for (int64_t task = b * spans_; task < (b + 1) * spans_; ++task) {
        pool(stage, b).merge(Pool<T>(&parts[task * size], heads_, width_), heads_, width_);
      }
    }
  }

  void pool_span(int stage, const Rows<T>& x, const T* w, const Pool<T>& part, const Piece& piece) const {
    const Weights<T> weights(heads_);
    const PaddingMask padding_mask(problem_.padding_mask, piece.b);
    for (int64_t begin = piece.begin; begin < piece.end; begin += kTile) {
      const int64_t n = std::min(kTile, piece.end - begin);
      weights.set_scores([&](int64_t i, int64_t h) { return x(begin + i, h); }, w, padding_mask, begin, n, width_);
      weights.weigh_sums(part, n, dropout(stage), piece, begin);
      for (int64_t c = 0; c < channels_; ++c) part.mean[c] *= weights.fade[c / width_];
      for (int64_t i = 0; i < n; ++i) {
        if (!padding_mask(begin + i)) continue;
        for (int64_t h = 0; h < heads_; ++h) {
          const T weight = weights.value_weight[i * heads_ + h];
          const T* row = x(begin + i, h);
          T* sum = part.mean + h * width_;
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) sum[d] += weight * row[d];
        }
      }
    }
    part.divide(heads_, width_);
  }

  /// The global query, and w_k as the keys meet it: (w_k ∘ q)/√D.
  void set_global_query() {
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t d = 0; d < width_; ++d) {
          const int64_t c = h * width_ + d;
          const T query = pool(0, b).mean[c];
          global_query_[b * channels_ + c] = query;
          w_k_[b * channels_ + c] = scale_ * at(problem_.w_k, h, d) * (add() ? T{1} : query);
        }
      }
    }
  }

  void set_global_key() {
    for (int64_t b = 0; b < batch_; ++b) {
      const Pool<T> keys = pool(1, b);
      for (int64_t c = 0; c < channels_; ++c) {
        const T query = global_query_[b * channels_ + c];
        global_key_[b * channels_ + c] = add() ? query * keys.kept[c / width_] + keys.mean[c] : query * keys.mean[c];
      }
    }
  }

  /// u_i = k ∘ v_i
  void multiply(const View& u, const Piece& piece) const {
    const Rows<T> out(u, piece), v(problem_.v, piece);
    const Pool<T> keys = pool(1, piece.b);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        T* y = out(i, h);
        const T* x = v(i, h);
        const T* key = &global_key_[piece.b * channels_ + h * width_];
        if (keys.total[h] == 0) {
          std::fill_n(y, static_cast<int64_t>(width_), T{0});
        } else if (add()) {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) y[d] = key[d] + x[d];
        } else {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) y[d] = key[d] * x[d];
        }
      }
    }
  }

  /// The cotangent of v_i from that of u_i; 0 where nothing was left to sum.
  void value_gradient(T* dv, const T* du, const T* key, T total) const {
    if (total == 0) {
      std::fill_n(dv, width_, T{0});
    } else if (add()) {
      std::copy_n(du, width_, dv);
    } else {
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) dv[d] = du[d] * key[d];
    }
  }

  /// Adds to `sum` the cotangent of the global key, and writes dv if there is one of its own.
  void values_backward(const AdditiveAttentionGradients& out, const View& cotangent, const Piece& piece,
                       T* sum) const {
    const Rows<T> du(cotangent, piece), v(problem_.v, piece);
    const Pool<T> keys = pool(1, piece.b);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        const T *g = du(i, h), *x = v(i, h);
        const T* key = &global_key_[piece.b * channels_ + h * width_];
        T* to = sum + h * width_;
        if (out.dv != nullptr) value_gradient(Rows<T>(*out.dv, piece)(i, h), g, key, keys.total[h]);
        if (keys.total[h] == 0) continue;
        if (add()) {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) to[d] += g[d];
        } else {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) to[d] += g[d] * x[d];
        }
      }
    }
  }

  /// k = q ∘ Σ β_i k_i, or q Σ β_i + Σ β_i k_i: dk and dw_k, and from the global key's cotangent the global query's.
  void keys_backward(const AdditiveAttentionGradients& out, const T* dkey, T* dquery) const {
    const Cotangent cotangent(batch_ * channels_, batch_ * heads_);
    for (int64_t row = 0; row < batch_ * heads_; ++row) {
      cotangent.offset[row] = cotangent.mean[row] = 0;
      for (int64_t c = row * width_; c < (row + 1) * width_; ++c) {
        cotangent.r[c] = add() ? dkey[c] : global_query_[c] * dkey[c];
        cotangent.offset[row] += add() ? global_query_[c] * dkey[c] : T{0};
        cotangent.mean[row] += global_key_[c] * dkey[c];
      }
    }
    const Scratch<T> sums(batch_ * channels_);
    sum_spans(sums.data(), [&](const Piece& piece, T* sum) {
      pool_backward(1, problem_.k, out.dk, nullptr, &w_k_[piece.b * channels_], cotangent, piece, sum);
    });
    clear(out.dw_k);
    for (int64_t c = 0; c < batch_ * channels_; ++c) {
      const int64_t b = c / channels_, h = c % channels_ / width_, d = c % width_;
      const T w = scale_ * at(problem_.w_k, h, d), query = global_query_[c];
      at(out.dw_k, h, d) += scale_ * sums[c] * (add() ? T{1} : query);
      dquery[c] = add() ? dkey[c] * pool(1, b).kept[h] : dkey[c] * pool(1, b).mean[c % channels_] + w * sums[c];
    }
  }

  /// q = Σ α_i q_i: dq and dw_q
  void queries_backward(const AdditiveAttentionGradients& out, const View& du, const T* dquery) const {
    const Cotangent cotangent(batch_ * channels_, batch_ * heads_);
    std::copy_n(dquery, batch_ * channels_, cotangent.r.data());
    for (int64_t row = 0; row < batch_ * heads_; ++row) {
      cotangent.offset[row] = cotangent.mean[row] = 0;
      for (int64_t c = row * width_; c < (row + 1) * width_; ++c) {
        cotangent.mean[row] += global_query_[c] * dquery[c];
      }
    }
    const Scratch<T> sums(batch_ * channels_);
    sum_spans(sums.data(), [&](const Piece& piece, T* sum) {
      pool_backward(0, problem_.q, out.dq, out.dv == nullptr ? &du : nullptr, w_q_.data(), cotangent, piece, sum);
    });
    clear(out.dw_q);
    for (int64_t c = 0; c < batch_ * channels_; ++c) {
      at(out.dw_q, c % channels_ / width_, c % width_) += scale_ * sums[c];
    }
  }

  /// ∂s_i = weight_i (r·x_i + offset) − undropped weight_i r·mean,  ∂x_i = weight_i r + ∂s_i w (and, when x is v too,
  /// what u_i = k ∘ v_i adds);  sum += ∂s_i x_i.
  void pool_backward(int stage, const View& column, const View& column_gradient, const View* du, const T* w,
                     const Cotangent& cotangent, const Piece& piece, T* sum) const {
    const Weights<T> weights(heads_);
    const Rows<T> x(column, piece), dx(column_gradient, piece), g(du == nullptr ? column : *du, piece);
    const PaddingMask padding_mask(problem_.padding_mask, piece.b);
    const Pool<T> keys = pool(1, piece.b);
    for (int64_t begin = piece.begin; begin < piece.end; begin += kTile) {
      const int64_t n = std::min(kTile, piece.end - begin);
      weights.set_scores([&](int64_t i, int64_t h) { return x(begin + i, h); }, w, padding_mask, begin, n, width_);
      weights.weigh_all(pool(stage, piece.b), n, dropout(stage), piece, begin);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t h = 0; h < heads_; ++h) {
          T* to = dx(begin + i, h);
          const T* key = &global_key_[piece.b * channels_ + h * width_];
          if (du != nullptr) {
            value_gradient(to, g(begin + i, h), key, keys.total[h]);
          } else {
            std::fill_n(to, static_cast<int64_t>(width_), T{0});
          }
          if (!padding_mask(begin + i)) continue;
          const int64_t head = piece.b * heads_ + h;
          const T *row = x(begin + i, h), *r = &cotangent.r[head * width_], *w_h = w + h * width_;
          T product = 0;
#pragma omp simd reduction(+ : product)
          for (int64_t d = 0; d < width_; ++d) product += r[d] * row[d];
          const T weight = weights.value_weight[i * heads_ + h];
          const T ds =
              weight * (product + cotangent.offset[head]) - weights.weight[i * heads_ + h] * cotangent.mean[head];
          T* sum_h = sum + h * width_;
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) {
            to[d] += weight * r[d] + ds * w_h[d];
            sum_h[d] += ds * row[d];
          }
        }
      }
    }
  }

  const AdditiveAttentionInputs& problem_;
  T* pools_;
  Width width_;
  int64_t batch_, heads_, tokens_, channels_, span_, spans_;
  T scale_;
  Scratch<T> w_q_, w_k_, global_query_, global_key_;
};

int64_t additive_attention_pools(int64_t heads, int64_t tokens, int64_t width, bool causal) {
  return (causal ? ceil_div(tokens, kTile) : 1) * Pool<float>::size(heads, width);
}

void additive_attention(View u, View pools, AdditiveAttentionInputs problem) {
  if (problem.causal) return causal_additive_attention(u, pools, problem);
  dispatch_floating(u.dtype, [&]<class T>(T) {
    with_width<T>(u.shape[3],
                  [&](auto width) { WholeSequences<T, decltype(width)>(pools, problem, width).forward(u); });
  });
}

void additive_attention_backward(AdditiveAttentionGradients out, View du, View pools,
                                 AdditiveAttentionInputs problem) {
  if (problem.causal) return causal_additive_attention_backward(out, du, pools, problem);
  dispatch_floating(du.dtype, [&]<class T>(T) {
    with_width<T>(du.shape[3],
                  [&](auto width) { WholeSequences<T, decltype(width)>(pools, problem, width).backward(out, du); });
  });
}

}  // namespace

void fill_additive_attention(Backend& table) {
  table.additive_attention_pools = additive_attention_pools;
  table.additive_attention = additive_attention;
  table.additive_attention_backward = additive_attention_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
