#include <cmath>

#include <linnet/ops/cpu/fastformer/additive_tile.h>

/// Additive attention over whole sequences (Wu et al. 2021, eqs. 3–6). The global vectors do not depend on the token,
/// so p_i = q ∘ k_i is never formed: w_k·p_i = (w_k ∘ q)·k_i and k = q ∘ Σ β_i k_i. Forward reads each of q, k and v
/// once, and so does backward. A pass runs over chunks of tokens on all threads; each chunk has sums of its own,
/// which are then added in order.

namespace linnet::cpu::LINNET_ISA {
namespace {

using namespace additive;

/// Elements of a chunk.
constexpr int64_t kChunkElements = 65536;

template <class T, class Width>
class WholeSequences {
 public:
  WholeSequences(const View& pools, const AdditiveAttentionInputs& in, Width width)
      : in_(in),
        pools_(data<T>(pools)),
        width_(width),
        batch_(in.q.shape[0]),
        heads_(in.q.shape[1]),
        tokens_(in.q.shape[2]),
        channels_(heads_ * width),
        chunk_size_(std::max(kChunkElements / std::max(channels_ * kTile, int64_t{1}), int64_t{1}) * kTile),
        chunks_(ceil_div(tokens_, chunk_size_)),
        w_q_(channels_),
        w_k_(batch_ * channels_),
        global_query_(batch_ * channels_),
        global_key_(batch_ * channels_) {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(in.q.shape[3])));
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) w_q_[h * width_ + d] = scale * at(in.w_q, h, d);
    }
    scale_ = scale;
  }

  void forward(const View& u) {
    // α_i = softmax_i(w_q·q_i/√D), q = Σ α_i q_i                       [Fastformer eq.3] [Fastformer eq.4]
    pool_all(0, in_.q, w_q_.data(), 0);
    set_global_query();
    // β_i = softmax_i(w_k·p_i/√D), k = Σ β_i p_i                       [Fastformer eq.5] [Fastformer eq.6]
    pool_all(1, in_.k, w_k_.data(), channels_);
    set_global_key();
    for_each_chunk([&](const HeadChunk& chunk, int64_t) { multiply(u, chunk); });
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) {
    set_global_query();
    set_global_key();
    const Scratch<T> dkey(batch_ * channels_), dquery(batch_ * channels_);
    sum_chunks(dkey.data(), [&](const HeadChunk& chunk, T* sum) { values_backward(out, du, chunk, sum); });
    keys_backward(out, dkey.data(), dquery.data());
    queries_backward(out, du, dquery.data());
  }

 private:
  /// The cotangent of mean = Σ weight_i x_i, for every sequence: r = ∂L/∂mean [B, C], and for each head r·mean and an
  /// `offset` that is added to r·x_i [B, H].
  struct Cotangent {
    Scratch<T> r, offset, mean;
    Cotangent(int64_t channels, int64_t heads) : r(channels), offset(heads), mean(heads) {}
  };

  bool add() const { return in_.add; }
  static T& at(const View& w, int64_t h, int64_t d) {
    return static_cast<T*>(w.data)[h * w.strides[0] + d * w.strides[1]];
  }
  void clear(const View& w) const {
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) at(w, h, d) = 0;
    }
  }
  /// The pool of stage 0 (queries, α) or 1 (keys, β). Forward leaves both for backward.
  PooledMean<T> pool(int stage, int64_t b) const {
    return {pools_ + (stage * batch_ + b) * PooledMean<T>::size(heads_, width_), heads_, width_};
  }
  Dropout dropout(int stage) const { return {in_.dropout, in_.dropout_rng[stage], heads_, tokens_}; }

  template <class F>
  void for_each_chunk(F&& f) const {
    const int64_t grain =
        std::max(kChunkElements / std::max(std::min(chunk_size_, tokens_) * channels_, int64_t{1}), int64_t{1});
    parallel_for(batch_ * chunks_, grain, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t begin = task % chunks_ * chunk_size_;
        f(HeadChunk{task / chunks_, 0, heads_, begin, std::min(begin + chunk_size_, tokens_)}, task);
      }
    });
  }

  /// sums [B, C]: for each sequence, the sum over its chunks of the [C] numbers that `f(chunk, sum)` makes.
  template <class F>
  void sum_chunks(T* sums, F&& f) const {
    Scratch<T> partial(batch_ * chunks_ * channels_);
    for_each_chunk([&](const HeadChunk& chunk, int64_t task) {
      T* const sum = partial.data() + task * channels_;  // a width of 0 has no memory
      std::fill_n(sum, channels_, T{0});
      f(chunk, sum);
    });
    std::fill_n(sums, batch_ * channels_, T{0});
    for (int64_t task = 0; task < batch_ * chunks_; ++task) {
      T* sum = sums + task / chunks_ * channels_;
      for (int64_t c = 0; c < channels_; ++c) sum[c] += partial[task * channels_ + c];
    }
  }

  /// Pools x into pool(stage, b) for every sequence b. Its scores are w·x_i with w + b·w_step, [C].
  void pool_all(int stage, const View& x, const T* w, int64_t w_step) const {
    const int64_t size = PooledMean<T>::size(heads_, width_);
    Scratch<T> partial(batch_ * chunks_ * size);
    for_each_chunk([&](const HeadChunk& chunk, int64_t task) {
      const PooledMean<T> own(partial.data() + task * size, heads_, width_);
      own.clear(heads_, width_);
      pool_chunk(stage, ChunkRows<T>(x, chunk), w + chunk.b * w_step, own, chunk);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      pool(stage, b).clear(heads_, width_);
      for (int64_t task = b * chunks_; task < (b + 1) * chunks_; ++task) {
        pool(stage, b).merge(PooledMean<T>(partial.data() + task * size, heads_, width_), heads_, width_);
      }
    }
  }

  /// mean = Σ weight_i x_i over one chunk, with its own m and z.
  ///                       [Fastformer eq.3] [Fastformer eq.4], of keys [Fastformer eq.5] [Fastformer eq.6]
  void pool_chunk(int stage, const ChunkRows<T>& x, const T* w, const PooledMean<T>& own,
                  const HeadChunk& chunk) const {
    const TileWeights<T> weights(heads_);
    const PaddingMask padding_mask(in_.padding_mask, chunk.b);
    for (int64_t begin = chunk.begin; begin < chunk.end; begin += kTile) {
      const int64_t n = std::min(kTile, chunk.end - begin);
      weights.set_scores([&](int64_t i, int64_t h) { return x(begin + i, h); }, w, padding_mask, begin, n, width_);
      weights.weigh_sums(own, n, dropout(stage), chunk, begin);
      for (int64_t c = 0; c < channels_; ++c) own.mean[c] *= weights.rescale[c / width_];
      for (int64_t i = 0; i < n; ++i) {
        if (!padding_mask(begin + i)) continue;
        for (int64_t h = 0; h < heads_; ++h) {
          const T weight = weights.value_weight[i * heads_ + h];
          const T* row = x(begin + i, h);
          T* sum = own.mean + h * width_;
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) sum[d] += weight * row[d];
        }
      }
    }
    own.divide(heads_, width_);
  }

  /// The global query q, and the weights of the keys' scores, (w_k ∘ q)/√D.
  void set_global_query() {
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t d = 0; d < width_; ++d) {
          const int64_t c = h * width_ + d;
          const T query = pool(0, b).mean[c];
          global_query_[b * channels_ + c] = query;
          w_k_[b * channels_ + c] = scale_ * at(in_.w_k, h, d) * (add() ? T{1} : query);
        }
      }
    }
  }

  /// k = q ∘ Σ β_i k_i, or with sums q Σ β_i + Σ β_i k_i.                                 [Fastformer eq.6]
  void set_global_key() {
    for (int64_t b = 0; b < batch_; ++b) {
      const PooledMean<T> keys = pool(1, b);
      for (int64_t c = 0; c < channels_; ++c) {
        const T query = global_query_[b * channels_ + c];
        global_key_[b * channels_ + c] = add() ? query * keys.kept[c / width_] + keys.mean[c] : query * keys.mean[c];
      }
    }
  }

  /// u_i = k ∘ v_i, or k + v_i; 0 where every token is padding.
  void multiply(const View& u, const HeadChunk& chunk) const {
    const ChunkRows<T> out(u, chunk), v(in_.v, chunk);
    const PooledMean<T> keys = pool(1, chunk.b);
    for (int64_t i = chunk.begin; i < chunk.end; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        T* y = out(i, h);
        const T* x = v(i, h);
        const T* key = global_key_.data() + chunk.b * channels_ + h * width_;
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

  /// ∂L/∂v_i from ∂L/∂u_i; 0 where every token is padding.
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

  /// Adds ∂L/∂k to `sum`, and writes dv unless v is q.
  void values_backward(const AdditiveAttentionGradients& out, const View& cotangent, const HeadChunk& chunk,
                       T* sum) const {
    const ChunkRows<T> du(cotangent, chunk), v(in_.v, chunk);
    const PooledMean<T> keys = pool(1, chunk.b);
    for (int64_t i = chunk.begin; i < chunk.end; ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        const T *g = du(i, h), *x = v(i, h);
        const T* key = global_key_.data() + chunk.b * channels_ + h * width_;
        T* to = sum + h * width_;
        if (out.dv != nullptr) value_gradient(ChunkRows<T>(*out.dv, chunk)(i, h), g, key, keys.total[h]);
        if (keys.total[h] == 0) continue;
        if (add()) {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) to[d] += g[d];
        } else {
#pragma omp simd
          for (int64_t d = 0; d < width_; ++d) to[d] += g[d] == 0 ? T{0} : g[d] * x[d];  // x may be NaN in padding
        }
      }
    }
  }

  /// dk, dw_k and the global query's cotangent from the global key's, of k = q ∘ Σ β_i k_i or q Σ β_i + Σ β_i k_i:
  /// the gradient of [Fastformer eq.5] [Fastformer eq.6].
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
    sum_chunks(sums.data(), [&](const HeadChunk& chunk, T* sum) {
      pool_backward(1, in_.k, out.dk, nullptr, w_k_.data() + chunk.b * channels_, cotangent, chunk, sum);
    });
    clear(out.dw_k);
    for (int64_t c = 0; c < batch_ * channels_; ++c) {
      const int64_t b = c / channels_, h = c % channels_ / width_, d = c % width_;
      const T w = scale_ * at(in_.w_k, h, d), query = global_query_[c];
      at(out.dw_k, h, d) += scale_ * sums[c] * (add() ? T{1} : query);
      dquery[c] = add() ? dkey[c] * pool(1, b).kept[h] : dkey[c] * pool(1, b).mean[c % channels_] + w * sums[c];
    }
  }

  /// dq and dw_q, of q = Σ α_i q_i: the gradient of [Fastformer eq.3] [Fastformer eq.4].
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
    sum_chunks(sums.data(), [&](const HeadChunk& chunk, T* sum) {
      pool_backward(0, in_.q, out.dq, out.dv == nullptr ? &du : nullptr, w_q_.data(), cotangent, chunk, sum);
    });
    clear(out.dw_q);
    for (int64_t c = 0; c < batch_ * channels_; ++c) {
      at(out.dw_q, c % channels_ / width_, c % width_) += scale_ * sums[c];
    }
  }

  /// Backward through one pool, with value_weight_i = weight_i after dropout:
  ///   ∂s_i = value_weight_i (r·x_i + offset) − weight_i r·mean
  ///   ∂x_i = value_weight_i r + ∂s_i w,   sum += ∂s_i x_i
  /// If x is v too, `du` gives the gradient through u_i = k ∘ v_i, which is added to ∂x_i.
  void pool_backward(int stage, const View& projection, const View& projection_gradient, const View* du, const T* w,
                     const Cotangent& cotangent, const HeadChunk& chunk, T* sum) const {
    const TileWeights<T> weights(heads_);
    const ChunkRows<T> x(projection, chunk), dx(projection_gradient, chunk),
        g(du == nullptr ? projection : *du, chunk);
    const PaddingMask padding_mask(in_.padding_mask, chunk.b);
    const PooledMean<T> keys = pool(1, chunk.b);
    for (int64_t begin = chunk.begin; begin < chunk.end; begin += kTile) {
      const int64_t n = std::min(kTile, chunk.end - begin);
      weights.set_scores([&](int64_t i, int64_t h) { return x(begin + i, h); }, w, padding_mask, begin, n, width_);
      weights.weigh_all(pool(stage, chunk.b), n, dropout(stage), chunk, begin);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t h = 0; h < heads_; ++h) {
          T* to = dx(begin + i, h);
          const T* key = global_key_.data() + chunk.b * channels_ + h * width_;
          if (du != nullptr) {
            value_gradient(to, g(begin + i, h), key, keys.total[h]);
          } else {
            std::fill_n(to, static_cast<int64_t>(width_), T{0});
          }
          if (!padding_mask(begin + i)) continue;
          const int64_t head = chunk.b * heads_ + h;
          const T *row = x(begin + i, h), *r = cotangent.r.data() + head * width_, *w_h = w + h * width_;
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

  const AdditiveAttentionInputs& in_;
  T* pools_;
  Width width_;
  int64_t batch_, heads_, tokens_, channels_, chunk_size_, chunks_;
  T scale_;
  Scratch<T> w_q_, w_k_, global_query_, global_key_;
};

int64_t additive_attention_pools(int64_t heads, int64_t tokens, int64_t width, bool causal) {
  return (causal ? ceil_div(tokens, kTile) : 1) * PooledMean<float>::size(heads, width);
}

void additive_attention(View u, View pools, AdditiveAttentionInputs in) {
  if (in.causal) return causal_additive_attention(u, pools, in);
  dispatch_floating(u.dtype, [&]<class T>(T) {
    with_width<T>(u.shape[3], [&](auto width) { WholeSequences<T, decltype(width)>(pools, in, width).forward(u); });
  });
}

void additive_attention_backward(AdditiveAttentionGradients out, View du, View pools, AdditiveAttentionInputs in) {
  if (in.causal) return causal_additive_attention_backward(out, du, pools, in);
  dispatch_floating(du.dtype, [&]<class T>(T) {
    with_width<T>(du.shape[3],
                  [&](auto width) { WholeSequences<T, decltype(width)>(pools, in, width).backward(out, du); });
  });
}

}  // namespace

void fill_additive_attention(Backend& table) {
  table.additive_attention_pools = additive_attention_pools;
  table.additive_attention = additive_attention;
  table.additive_attention_backward = additive_attention_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
