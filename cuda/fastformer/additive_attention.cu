#include <linnet/cuda/fastformer/additive_attention.cuh>

#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastformer/additive_runs.cuh>

/// Additive attention over whole sequences (Wu et al. 2021, eqs. 3–6). As on the CPU p_i = q ∘ k_i is never formed,
/// since the global vectors do not depend on the token: w_k·p_i = (w_k ∘ q)·k_i and k = q ∘ Σ β_i k_i. Memory bounds
/// it: forward reads q, then k, then v and writes u; backward reads v and du, then k and writes dk, then q and du and
/// writes dq. What chunks leave adds a thirtieth to that at most.

namespace linnet::cuda {
namespace {

using namespace additive;
using Block = ThreadGroup<kThreads>;

/// Blocks of forward that have their registers on a multiprocessor together, as many as spill none: an H100 then
/// takes those of 65,536 tokens in 16 heads of 16 columns at once.
template <class T>
constexpr int kBlocks = sizeof(T) == 4 ? 4 : 2;

// ---- Forward ----

/// Sums of the softmax, relative to the largest score m.
template <class T>
struct PoolSums {
  T m, total, kept;
  Pack<T> sum;

  __device__ static PoolSums none() { return {-infinity<T>(), 0, 0, {}}; }
  /// Makes them relative to `m_next`, which is no smaller.
  __device__ void fade_to(T m_next) {
    const T factor = rescale(m, m_next);
    m = m_next;
    total *= factor;
    kept *= factor;
#pragma unroll
    for (int c = 0; c < kPack; ++c) sum.of[c] *= factor;
  }
  __device__ void add(PoolSums other) {
    const T m_next = Maximum()(m, other.m);
    fade_to(m_next);
    other.fade_to(m_next);
    total += other.total;
    kept += other.kept;
    add_to(sum, T{1}, other.sum);
  }
};

/// The softmax's sums go on from batch to batch: with m' the largest score so far, all before is faded by e^(m − m').
template <class T, class E>
__global__ void __launch_bounds__(kThreads, kBlocks<T>)
    pool_runs(Problem<T> in, Stage<T, E> stage, Chunks<T> chunks) {
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
      sums.fade_to(m_next);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!counts[j]) continue;
        const T weight = exp(s[j] - m_next), left = weight * in.factor(dropout_rng, at.row, at.token(in, first, j));
        sums.total += weight;
        sums.kept += left;
        add_to(sums.sum, left, x[j]);
      }
    }
    sums = reduce_runs(sums, in, [](PoolSums<T> x, const PoolSums<T>& y) {
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

/// From chunks to rows; a block for each, as in all that join.
template <class T>
__global__ void join_pools(Problem<T> in, Chunks<T> chunks, Pool<T> pool) {
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
    const double sum = join(chunks.sum, in, row, factor);
    if (threadIdx.x < in.width) pool.mean[row * in.width + threadIdx.x] = z == 0 ? T{0} : static_cast<T>(sum / z);
    if (threadIdx.x != 0) continue;
    pool.maximum[row] = m;
    pool.total[row] = static_cast<T>(z);
    pool.kept[row] = z == 0 ? T{0} : static_cast<T>(kept / z);
  }
}

/// u_i = k ∘ v_i (or k + v_i); 0 where no token is in the sum of k.
template <class T, class E>
__global__ void __launch_bounds__(kThreads, kBlocks<T>) multiply(Problem<T> in, HeadRows<const E> v, HeadRows<E> u) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> key = global_key(in, at);
    const bool none = in.keys.total[at.row] == 0;
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool there[kBatch];
      Pack<T> x[kBatch];
      find_there(there, in, at, first);
      load_batch(x, v, in, at, first, there);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!there[j]) continue;
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

/// Of a pool's mean, for each row: r [B·H, D], what is added to r·x_i, and r·mean (with the means as they are used).
template <class T>
struct Cotangent {
  T *r, *offset, *mean;

  static int64_t size(const Problem<T>& in) { return in.rows * (in.width + 2); }
  Cotangent(T* memory, const Problem<T>& in) : r(memory), offset(r + in.rows * in.width), mean(offset + in.rows) {}
};

/// Sums up the cotangent of the global key, Σ du_i ∘ v_i (or Σ du_i). Where `writes_dv`, dv_i = k ∘ du_i (or du_i).
template <class T, class E>
__global__ void values_backward(Problem<T> in, HeadRows<const E> du, HeadRows<const E> v, bool writes_dv,
                                HeadRows<E> dv, T* sums) {
  for (int64_t task = blockIdx.x; task < in.tasks; task += gridDim.x) {
    const Place at(in, task);
    const Pack<T> key = global_key(in, at);
    const bool none = in.keys.total[at.row] == 0;
    Pack<T> sum = {};
    for (int64_t first = at.begin; first < at.end; first += kBatch * in.block_tokens) {
      bool there[kBatch], multiplies[kBatch];
      Pack<T> g[kBatch], x[kBatch];
      find_there(there, in, at, first);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) multiplies[j] = there[j] && !in.adds;
      load_batch(g, du, in, at, first, there);
      load_batch(x, v, in, at, first, multiplies);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!there[j]) continue;
#pragma unroll
        for (int c = 0; c < kPack; ++c) {
          T& y = g[j].of[c];
          if (none) y = 0;
          if (y != 0) sum.of[c] += in.adds ? y : y * x[j].of[c];  // 0 times what padding may hold is 0
          if (!in.adds) y *= key.of[c];
        }
        if (writes_dv) store(dv, at, at.token(in, first, j), g[j]);
      }
    }
    store_sum_of_runs(sums, in, at, sum);
  }
}

/// From the chunks' sums: `dkey`, the cotangent of the global key, and that of Σ β_i k_i.
template <class T>
__global__ void join_values(Problem<T> in, const T* sums, T* dkey, Cotangent<T> cotangent) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T g = static_cast<T>(join(sums, in, row));
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

/// With a_i the weight of token i and a'_i what dropout has made of it:
///   ∂s_i = a'_i (r·x_i + offset) − a_i r·mean,  ∂x_i = a'_i r + ∂s_i w,  sums: Σ ∂s_i x_i
/// and where x is v too (`shared`), ∂x_i += k ∘ du_i (or du_i).
template <class T, class E>
__global__ void pool_backward(Problem<T> in, Stage<T, E> stage, Cotangent<T> cotangent, bool shared,
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
      bool there[kBatch], counts[kBatch];
      Pack<T> x[kBatch], g[kBatch];
      T dots[2 * kBatch];  // the scores, and r·x_i
      find_there(there, in, at, first);
      find_kept(counts, in, at, first);
      load_batch(x, stage.x, in, at, first, counts);
      if (shared) load_batch(g, du, in, at, first, there);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        dots[j] = dot(w, x[j]);
        dots[kBatch + j] = dot(r, x[j]);
      }
      reduce_head(dots, in.lanes);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (!there[j]) continue;
        Pack<T> y = {};
        if (counts[j] && dots[j] != -infinity<T>()) {
          const int64_t i = at.token(in, first, j);
          const T weight = exp(dots[j] - m) * inverse, left = weight * in.factor(dropout_rng, at.row, i);
          const T ds = left * (dots[kBatch + j] + offset) - weight * r_mean;
          add_to(y, left, r);
          add_to(y, ds, w);
          add_to(sum, ds, x[j]);
        }
        for (int c = 0; c < kPack && adds_values; ++c) y.of[c] += in.adds ? g[j].of[c] : g[j].of[c] * k.of[c];
        store(dx, at, at.token(in, first, j), y);
      }
    }
    store_sum_of_runs(sums, in, at, sum);
  }
}

/// From the chunks' sums: each row's part of dw_k, and the cotangent of the global query.
template <class T, class E>
__global__ void join_keys(Problem<T> in, Stage<T, E> stage, const T* sums, const T* dkey, T* dw,
                          Cotangent<T> cotangent) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T sum = in.scale * static_cast<T>(join(sums, in, row));
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

/// From the chunks' sums: each row's part of dw_q.
template <class T>
__global__ void join_queries(Problem<T> in, const T* sums, T* dw) {
  for (int64_t row = blockIdx.x; row < in.rows; row += gridDim.x) {
    const T sum = in.scale * static_cast<T>(join(sums, in, row));
    if (threadIdx.x < in.width) dw[row * in.width + threadIdx.x] = sum;
  }
}

/// dw [H, D] = the sum over the sequences of parts [B·H, D].
template <class T>
__global__ void add_sequences(Problem<T> in, const T* parts, T* dw, int64_t head_stride, int64_t stride) {
  const int64_t size = in.heads * in.width;
  for (int64_t e = first_item(); e < size; e += item_step()) {
    double sum = 0;
    for (int64_t part = e; part < in.rows * in.width; part += size) sum += static_cast<double>(parts[part]);
    dw[e / in.width * head_stride + e % in.width * stride] = static_cast<T>(sum);
  }
}

/// One problem; both passes.
template <class T, class E>
class WholeAdditive {
 public:
  WholeAdditive(const AdditiveAttentionInputs& given, const View& pools)
      : in_(given, pools),
        v_(given.v),
        queries_(stage(given.q, given.w_q, nullptr, given.dropout_rng[0], in_.queries)),
        keys_(stage(given.k, given.w_k, in_.adds ? nullptr : in_.queries.mean, given.dropout_rng[1], in_.keys)) {}

  void forward(const View& u) const {
    const Scratch<T> memory(Chunks<T>::size(in_));
    const Chunks<T> chunks(memory.data(), in_);
    for (const Stage<T, E>& stage : {queries_, keys_}) {  // eqs. 3 and 4, eqs. 5 and 6
      launch(pool_runs<T, E>, in_.tasks, kThreads, in_, stage, chunks);
      launch(join_pools<T>, in_.rows, kThreads, in_, chunks, stage.pool);
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
    launch(join_values<T>, in_.rows, kThreads, in_, sums.data(), dkey.data(), cotangent);
    launch(pool_backward<T, E>, in_.tasks, kThreads, in_, keys_, cotangent, false, g, HeadRows<E>(out.dk),
           sums.data());
    launch(join_keys<T, E>, in_.rows, kThreads, in_, keys_, sums.data(), dkey.data(), dw.data(), cotangent);
    add_parts(dw, out.dw_k);
    launch(pool_backward<T, E>, in_.tasks, kThreads, in_, queries_, cotangent, shared, g, HeadRows<E>(out.dq),
           sums.data());
    launch(join_queries<T>, in_.rows, kThreads, in_, sums.data(), dw.data());
    add_parts(dw, out.dw_q);
  }

 private:
  static Stage<T, E> stage(const View& x, const View& w, const T* factor, RandomKey dropout_rng, const Pool<T>& pool) {
    return {HeadRows<const E>(x), data<const T>(w), factor, {w.strides[0], w.strides[1]}, dropout_rng, pool};
  }
  void add_parts(const Scratch<T>& parts, const View& dw) const {
    launch(add_sequences<T>, blocks_for(in_.heads * in_.width), kThreads, in_, parts.data(), data<T>(dw),
           dw.strides[0], dw.strides[1]);
  }

  Problem<T> in_;
  HeadRows<const E> v_;
  Stage<T, E> queries_, keys_;
};

}  // namespace

bool is_whole_additive(int64_t heads, int64_t width, bool causal) {
  return !causal && heads > 0 && width > 0 && width <= kWarp * kPack;
}

int64_t whole_additive_pools(int64_t heads, int64_t width) { return Pool<double>::size(heads, width); }

void whole_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& problem) {
  dispatch_computed(u.dtype, [&](auto element, auto computed) {
    WholeAdditive<decltype(computed), decltype(element)>(problem, pools).forward(u);
  });
}

void whole_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                       const AdditiveAttentionInputs& problem) {
  dispatch_computed(du.dtype, [&](auto element, auto computed) {
    WholeAdditive<decltype(computed), decltype(element)>(problem, pools).backward(out, du);
  });
}

}  // namespace linnet::cuda
