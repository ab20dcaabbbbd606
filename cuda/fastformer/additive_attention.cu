#include <linnet/cuda/fastformer/additive_attention.cuh>

#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastformer/additive_chunks.cuh>

/// Additive attention over whole sequences, not causal (Wu et al. 2021, eqs. 3–6). As on the CPU, p_i = q ∘ k_i is
/// never computed, because the global vectors do not depend on the token: w_k·p_i = (w_k ∘ q)·k_i and k = q ∘ Σ β_i
/// k_i. Memory bounds it. Forward reads q, then k, then v, and writes u. Backward reads v and du, and writes dv
/// unless v is q; then it reads k and writes dk; then it reads q, and du if v is q, and writes dq. The chunks' sums
/// add at most a fifteenth to that.

namespace linnet::cuda {
namespace {

using namespace additive;
using Block = ThreadGroup<kThreads>;

/// The number of resident blocks per multiprocessor in forward: as many as are possible without register spills. An
/// H100 then runs all blocks of 65,536 tokens in 16 heads of 16 columns at once.
template <class T>
constexpr int kBlocks = sizeof(T) == 4 ? 4 : 2;

// ---- Forward ----

/// Softmax sums over some tokens, relative to the largest score m of these tokens.
template <class T>
struct PoolSums {
  T m, total, kept;
  Pack<T> sum;

  __device__ static PoolSums none() { return {-infinity<T>(), 0, 0, {}}; }
  /// Makes the sums relative to `m_next` ≥ m.
  __device__ void rescale_to(T m_next) {
    const T factor = rescale(m, m_next);
    m = m_next;
    total *= factor;
    kept *= factor;
#pragma unroll
    for (int c = 0; c < kPack; ++c) sum.of[c] *= factor;
  }
  __device__ void add(PoolSums other) {
    const T m_next = Maximum()(m, other.m);
    rescale_to(m_next);
    other.rescale_to(m_next);
    total += other.total;
    kept += other.kept;
    add_to(sum, T{1}, other.sum);
  }
};

/// Each chunk's softmax sums, batch by batch of tokens. Earlier sums are rescaled by e^(m − m'), where m' is the
/// largest score so far.
template <class T, class E>
__global__ void __launch_bounds__(kThreads, kBlocks<T>)
    sum_chunks(WholeAdditiveParams<T> in, Stage<T, E> stage, ChunkPools<T> chunks) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> w = stage.weight(in, at);
    const RandomKey dropout_rng = stage.dropout_rng;
    PoolSums<T> sums = PoolSums<T>::none();
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool counts[kBatch];
      Pack<T> x[kBatch];
      T s[kBatch], m_next = sums.m;
      find_kept(counts, in, at, first);
      load_batch(x, stage.x, in, at, first, counts);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) s[j] = dot(w, x[j]);
      reduce_head(s, in.lanes);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        counts[j] = counts[j] && s[j] != -infinity<T>();
        if (counts[j]) m_next = Maximum()(m_next, s[j]);
      }
      sums.rescale_to(m_next);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!counts[j]) continue;
        const T weight = exp(s[j] - m_next);  // [Fastformer eq.3], for the keys [Fastformer eq.5]
        const T kept = weight * in.factor(dropout_rng, at.row, at.token(in, first, j));
        sums.total += weight;
        sums.kept += kept;
        add_to(sums.sum, kept, x[j]);  // [Fastformer eq.4], for the keys [Fastformer eq.6]
      }
    }
    sums = reduce_groups(sums, in, [](PoolSums<T> x, const PoolSums<T>& y) {
      x.add(y);
      return x;
    });
    store_sum(chunks.sum, in, at, sums.sum);
    if (at.slot != 0 || at.columns == 0 || at.column != 0) continue;
    const int64_t chunk = at.row * in.chunks + at.chunk;
    chunks.maximum[chunk] = sums.m;
    chunks.total[chunk] = sums.total;
    chunks.kept[chunk] = sums.kept;
  }
}

/// Computes each row's mean from the chunks' sums, with a block for each row.
template <class T>
__global__ void finish_mean(WholeAdditiveParams<T> in, ChunkPools<T> chunks, PooledMean<T> pool) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const int64_t first = row * in.chunks;
    T m = -infinity<T>();
#pragma unroll 4
    for (int64_t chunk = threadIdx.x; chunk < in.chunks; chunk += kThreads) {
      m = Maximum()(m, chunks.maximum[first + chunk]);
    }
    m = Block::reduce(m, Maximum());
    const auto factor = [=](int64_t chunk) { return static_cast<double>(rescale(chunks.maximum[first + chunk], m)); };
    double z = 0, kept = 0;
#pragma unroll 4
    for (int64_t chunk = threadIdx.x; chunk < in.chunks; chunk += kThreads) {
      z += factor(chunk) * static_cast<double>(chunks.total[first + chunk]);
      kept += factor(chunk) * static_cast<double>(chunks.kept[first + chunk]);
    }
    z = Block::reduce(z, Plus());
    kept = Block::reduce(kept, Plus());
    const double sum = sum_over_chunks(chunks.sum, in, row, factor);
    if (threadIdx.x < in.width) pool.mean[row * in.width + threadIdx.x] = z == 0 ? T{0} : static_cast<T>(sum / z);
    if (threadIdx.x != 0) continue;
    pool.maximum[row] = m;
    pool.total[row] = static_cast<T>(z);
    pool.kept[row] = z == 0 ? T{0} : static_cast<T>(kept / z);
  }
}

/// u_i = k ∘ v_i (with `add` k + v_i); 0 for a head without tokens in its sums.
template <class T, class E>
__global__ void __launch_bounds__(kThreads, kBlocks<T>)
    multiply(WholeAdditiveParams<T> in, HeadRows<const E> v, HeadRows<E> u) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> key = global_key(in, at);
    const bool none = in.keys.total[at.row] == 0;
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool exists[kBatch];
      Pack<T> x[kBatch];
      find_existing(exists, in, at, first);
      load_batch(x, v, in, at, first, exists);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!exists[j]) continue;
        Pack<T> y;
#pragma unroll
        for (int c = 0; c < kPack; ++c) {
          y.of[c] = none ? T{0} : in.adds ? key.of[c] + x[j].of[c] : key.of[c] * x[j].of[c];
        }
        store(u, at, at.token(in, first, j), y);
      }
    }
  }
}

// ---- Backward ----

/// The cotangent of a stage's mean, for each row: r = ∂L/∂mean [B·H, D]; `offset`, which is added to each r·x_i; and
/// r·mean, with the mean from forward.
template <class T>
struct Cotangent {
  T *r, *offset, *mean;

  static int64_t size(const WholeAdditiveParams<T>& in) { return in.rows * (in.width + 2); }
  Cotangent(T* memory, const WholeAdditiveParams<T>& in)
      : r(memory), offset(r + in.rows * in.width), mean(offset + in.rows) {}
};

/// Sums the cotangent of the global key, Σ du_i ∘ v_i (with `add` Σ du_i). If `writes_dv`, dv_i = k ∘ du_i (or du_i).
template <class T, class E>
__global__ void values_backward(WholeAdditiveParams<T> in, HeadRows<const E> du, HeadRows<const E> v, bool writes_dv,
                                HeadRows<E> dv, T* sums) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> key = global_key(in, at);
    const bool none = in.keys.total[at.row] == 0;
    Pack<T> sum = {};
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool exists[kBatch], multiplies[kBatch];
      Pack<T> g[kBatch], x[kBatch];
      find_existing(exists, in, at, first);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) multiplies[j] = exists[j] && !in.adds;
      load_batch(g, du, in, at, first, exists);
      load_batch(x, v, in, at, first, multiplies);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!exists[j]) continue;
#pragma unroll
        for (int c = 0; c < kPack; ++c) {
          T& y = g[j].of[c];
          if (none) y = 0;
          if (y != 0) sum.of[c] += in.adds ? y : y * x[j].of[c];  // skips 0, because x may be NaN in padding
          if (!in.adds) y *= key.of[c];
        }
        if (writes_dv) store(dv, at, at.token(in, first, j), g[j]);
      }
    }
    store_chunk_sum(sums, in, at, sum);
  }
}

/// Computes from the chunks' sums `dkey`, the cotangent of the global key, and the cotangent of Σ β_i k_i.
template <class T>
__global__ void sum_values(WholeAdditiveParams<T> in, const T* sums, T* dkey, Cotangent<T> cotangent) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T g = static_cast<T>(sum_over_chunks(sums, in, row));
    double offset = 0, mean = 0;
    if (threadIdx.x < in.width) {
      const int64_t at = row * in.width + threadIdx.x;
      const T q = in.queries.mean[at];
      dkey[at] = g;
      cotangent.r[at] = in.adds ? g : q * g;
      if (in.adds) offset = q * g;
      mean = global_key(in, row, threadIdx.x) * g;
    }
    offset = Block::reduce(offset, Plus());
    mean = Block::reduce(mean, Plus());
    if (threadIdx.x != 0) continue;
    cotangent.offset[row] = static_cast<T>(offset);
    cotangent.mean[row] = static_cast<T>(mean);
  }
}

/// The gradient of a stage. With a_i the softmax weight of token i and a'_i the weight after dropout:
///   ∂s_i = a'_i (r·x_i + offset) − a_i r·mean,  ∂x_i = a'_i r + ∂s_i w,  sums = Σ ∂s_i x_i
/// If x is also v (`shared`), ∂x_i += k ∘ du_i (with `add` du_i).
template <class T, class E>
__global__ void pool_backward(WholeAdditiveParams<T> in, Stage<T, E> stage, Cotangent<T> cotangent, bool shared,
                              HeadRows<const E> du, HeadRows<E> dx, T* sums) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> w = stage.weight(in, at), r = load_vector<T>(cotangent.r, in, at), k = global_key(in, at);
    const T offset = cotangent.offset[at.row], r_mean = cotangent.mean[at.row];
    const T m = stage.pool.maximum[at.row], z = stage.pool.total[at.row], inverse = z == 0 ? T{0} : 1 / z;
    const bool adds_values = shared && in.keys.total[at.row] != 0;
    const RandomKey dropout_rng = stage.dropout_rng;
    Pack<T> sum = {};
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool exists[kBatch], counts[kBatch];
      Pack<T> x[kBatch], g[kBatch];
      T dots[2 * kBatch];  // the scores, and r·x_i
      find_existing(exists, in, at, first);
      find_kept(counts, in, at, first);
      load_batch(x, stage.x, in, at, first, counts);
      if (shared) load_batch(g, du, in, at, first, exists);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        dots[j] = dot(w, x[j]);
        dots[kBatch + j] = dot(r, x[j]);
      }
      reduce_head(dots, in.lanes);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!exists[j]) continue;
        Pack<T> y = {};
        if (counts[j] && dots[j] != -infinity<T>()) {
          const int64_t i = at.token(in, first, j);
          const T weight = exp(dots[j] - m) * inverse, kept = weight * in.factor(dropout_rng, at.row, i);
          // Gradient of [Fastformer eq.3], for the keys [Fastformer eq.5].
          const T ds = kept * (dots[kBatch + j] + offset) - weight * r_mean;
          add_to(y, kept, r);  // gradient of [Fastformer eq.4], for the keys [Fastformer eq.6]
          add_to(y, ds, w);
          add_to(sum, ds, x[j]);
        }
        for (int c = 0; c < kPack && adds_values; ++c) y.of[c] += in.adds ? g[j].of[c] : g[j].of[c] * k.of[c];
        store(dx, at, at.token(in, first, j), y);
      }
    }
    store_chunk_sum(sums, in, at, sum);
  }
}

/// Computes from the chunks' sums each row's part of dw_k, and the cotangent of the global query.
template <class T, class E>
__global__ void sum_keys(WholeAdditiveParams<T> in, Stage<T, E> stage, const T* sums, const T* dkey, T* dw,
                         Cotangent<T> cotangent) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T sum = in.scale * static_cast<T>(sum_over_chunks(sums, in, row));
    double mean = 0;
    if (threadIdx.x < in.width) {
      const int64_t d = threadIdx.x, at = row * in.width + d;
      const T q = in.queries.mean[at], w = stage.w[row % in.heads * stage.w_stride[0] + d * stage.w_stride[1]];
      dw[at] = in.adds ? sum : sum * q;
      cotangent.r[at] = in.adds ? dkey[at] * in.keys.kept[row] : dkey[at] * in.keys.mean[at] + w * sum;
      mean = q * cotangent.r[at];
    }
    mean = Block::reduce(mean, Plus());
    if (threadIdx.x != 0) continue;
    cotangent.offset[row] = 0;
    cotangent.mean[row] = static_cast<T>(mean);
  }
}

/// Computes from the chunks' sums each row's part of dw_q.
template <class T>
__global__ void sum_queries(WholeAdditiveParams<T> in, const T* sums, T* dw) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T sum = in.scale * static_cast<T>(sum_over_chunks(sums, in, row));
    if (threadIdx.x < in.width) dw[row * in.width + threadIdx.x] = sum;
  }
}

/// dw [H, D] = the sum of `shares` [B·H, D] over the sequences.
template <class T>
__global__ void add_sequences(WholeAdditiveParams<T> in, const T* shares, T* dw, int64_t head_stride,
                              int64_t stride) {
  const int64_t size = in.heads * in.width;
  for (int64_t e = first_item(); e < size; e += item_step()) {
    double sum = 0;
    for (int64_t i = e; i < in.rows * in.width; i += size) sum += static_cast<double>(shares[i]);
    dw[e / in.width * head_stride + e % in.width * stride] = static_cast<T>(sum);
  }
}

/// Forward and backward of one call.
template <class T, class E>
class WholeAdditive {
 public:
  WholeAdditive(const AdditiveAttentionInputs& given, const View& pools)
      : in_(given, pools),
        v_(given.v),
        queries_(stage(given.q, given.w_q, nullptr, given.dropout_rng[0], in_.queries)),
        keys_(stage(given.k, given.w_k, in_.adds ? nullptr : in_.queries.mean, given.dropout_rng[1], in_.keys)) {}

  void forward(const View& u) const {
    const Scratch<T> memory(ChunkPools<T>::size(in_));
    const ChunkPools<T> chunks(memory.data(), in_);
    for (const Stage<T, E>& stage : {queries_, keys_}) {
      launch(sum_chunks<T, E>, in_.tasks, kThreads, in_, stage, chunks);
      launch(finish_mean<T>, in_.rows, kThreads, in_, chunks, stage.pool);
    }
    launch(multiply<T, E>, in_.tasks, kThreads, in_, v_, HeadRows<E>(u));
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) const {
    const HeadRows<const E> g(du);
    const bool shared = out.dv == nullptr;
    const Scratch<T> sums(in_.rows * in_.chunks * in_.width), dkey(in_.rows * in_.width), dw(in_.rows * in_.width);
    const Scratch<T> memory(Cotangent<T>::size(in_));
    const Cotangent<T> cotangent(memory.data(), in_);
    const HeadRows<E> dv(shared ? out.dq : *out.dv);
    launch(values_backward<T, E>, in_.tasks, kThreads, in_, g, v_, !shared, dv, sums.data());
    launch(sum_values<T>, in_.rows, kThreads, in_, sums.data(), dkey.data(), cotangent);
    launch(pool_backward<T, E>, in_.tasks, kThreads, in_, keys_, cotangent, false, g, HeadRows<E>(out.dk),
           sums.data());
    launch(sum_keys<T, E>, in_.rows, kThreads, in_, keys_, sums.data(), dkey.data(), dw.data(), cotangent);
    add_row_shares(dw, out.dw_k);
    launch(pool_backward<T, E>, in_.tasks, kThreads, in_, queries_, cotangent, shared, g, HeadRows<E>(out.dq),
           sums.data());
    launch(sum_queries<T>, in_.rows, kThreads, in_, sums.data(), dw.data());
    add_row_shares(dw, out.dw_q);
  }

 private:
  static Stage<T, E> stage(const View& x, const View& w, const T* factor, RandomKey dropout_rng,
                           const PooledMean<T>& pool) {
    return {HeadRows<const E>(x), data<const T>(w), factor, {w.strides[0], w.strides[1]}, dropout_rng, pool};
  }
  void add_row_shares(const Scratch<T>& shares, const View& dw) const {
    launch(add_sequences<T>, blocks_for(in_.heads * in_.width), kThreads, in_, shares.data(), data<T>(dw),
           dw.strides[0], dw.strides[1]);
  }

  WholeAdditiveParams<T> in_;
  HeadRows<const E> v_;
  Stage<T, E> queries_, keys_;
};

}  // namespace

bool is_whole_additive(int64_t heads, int64_t width, bool causal) {
  return !causal && heads > 0 && width > 0 && width <= kWarp * kPack;
}

int64_t whole_additive_pools(int64_t heads, int64_t width) { return PooledMean<double>::size(heads, width); }

void whole_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& in) {
  dispatch_computed(u.dtype, [&](auto element, auto computed) {
    WholeAdditive<decltype(computed), decltype(element)>(in, pools).forward(u);
  });
}

void whole_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                       const AdditiveAttentionInputs& in) {
  dispatch_computed(du.dtype, [&](auto element, auto computed) {
    WholeAdditive<decltype(computed), decltype(element)>(in, pools).backward(out, du);
  });
}

}  // namespace linnet::cuda
