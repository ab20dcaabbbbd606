#include <algorithm>

#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastformer/attention_pool_chunks.cuh>
#include <linnet/cuda/fastformer/row_lanes.cuh>

/// Attention pooling, out = Σ_i softmax_i(s) x_i (Wu et al. 2021, eqs. 3–6). It computes the sums of the CPU's kernel
/// by chunks. With m the largest score so far, z = Σ e^(s − m) and a = Σ e^(s − m) x:
///   1. a warp for each chunk computes its (m, z, a) (sum_chunks);
///   2. a scan over the chunks merges those before each chunk, or all of them (scan_chunks);
///   3. causal only: a warp for each chunk goes over its tokens again, from those before the chunk (pool_chunks).
/// Backward takes the same steps from the last chunk to the first. For long sequences memory bounds these kernels,
/// except the scan, whose steps wait for each other. Causal pooling reads x twice, and non-causal pooling once.

namespace linnet::cuda {
namespace {

// ---- Forward ----

/// (m, z, a) for each task: either of its chunk alone, or of all chunks before it.
template <class T>
struct SoftmaxSums {
  T* maximum;
  double* total;
  T* weighted;  ///< [tasks, width]
};

/// (m, z, a) of each chunk alone.
template <class T>
__global__ void sum_chunks(PoolInputs<T> in, SoftmaxSums<T> sums) {
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const ChunkTask task(in, index);
    const int64_t i = task.first + Warp::lane();
    const T s = i < task.last ? *in.scores.at(task.b, task.h, i) : -infinity<T>();
    const bool counts = i < task.last && in.counts(task.b, i, s);
    const T m = Warp::reduce(counts ? s : -infinity<T>(), Maximum());
    const T weight = counts ? exp(s - m) : T{0};  // [Fastformer eq.3] [Fastformer eq.5]
    const double z = Warp::reduce(static_cast<double>(weight), Plus());
    sum_rows(sums.weighted + index * in.width, in.x, task, in.width, weight, lanes_where(counts));
    if (Warp::lane() == 0) {
      sums.maximum[index] = m;
      sums.total[index] = z;
    }
  }
}

/// The chain from the first chunk to the last. When causal, `before` becomes the sums of all chunks before each one;
/// it may use the memory of `sums.weighted`. Otherwise `out`, `maximum` and `total` become the results over all
/// chunks.
template <class T>
struct SumsBefore {
  struct State {
    T m;
    double z, a;
  };

  PoolInputs<T> in;
  SoftmaxSums<T> sums, before;
  HeadsView<T> out, maximum, total;

  __device__ static State none() { return {-infinity<T>(), 0, 0}; }
  __device__ static State merged(const State& x, const State& y) {
    const T m = Maximum()(x.m, y.m), x_rescale = rescale(x.m, m), y_rescale = rescale(y.m, m);
    return {m, x.z * x_rescale + y.z * y_rescale, x.a * x_rescale + y.a * y_rescale};
  }
  __device__ State load(int64_t head, int64_t chunk, int64_t d) const {
    const int64_t task = head * in.chunks + chunk;
    const T a = d < in.width ? sums.weighted[task * in.width + d] : T{0};
    return {sums.maximum[task], sums.total[task], static_cast<double>(a)};
  }
  __device__ void pass(int64_t head, int64_t chunk, int64_t d, const State& state) const {
    const int64_t task = head * in.chunks + chunk;
    if (d < in.width) before.weighted[task * in.width + d] = static_cast<T>(state.a);
    if (d != 0) return;
    before.maximum[task] = state.m;
    before.total[task] = state.z;
  }
  __device__ bool finishes() const { return !in.causal; }
  __device__ void finish(int64_t head, int64_t d, const State& state) const {
    const int64_t b = head / in.heads, h = head % in.heads;
    if (d < in.width)
      out.at(b, h, 0)[d] =
          state.z == 0 ? T{0} : static_cast<T>(state.a / state.z);  // [Fastformer eq.4] [Fastformer eq.6]
    if (d != 0) return;
    *maximum.at(b, h, 0) = state.m;
    *total.at(b, h, 0) = static_cast<T>(state.z);
  }
};

/// The sums of the lane `distance` lanes before this one.
template <class State>
__device__ State left_of(const State& sums, int distance) {
  return {__shfl_up_sync(kAllLanes, sums.m, distance), __shfl_up_sync(kAllLanes, sums.z, distance), 0};
}

/// Causal: the mean y over the tokens up to each one. With m' = max(m, s_i) and z' = e^(m − m') z + e^(s_i − m'):
///   y ← e^(m − m') z/z' y + e^(s_i − m')/z' x_i
/// A warp takes a chunk. First each lane has a token, for the scores; then each lane has a column.
template <class T>
__global__ void pool_chunks(PoolInputs<T> in, SoftmaxSums<T> before, HeadsView<T> out, HeadsView<T> maximum,
                            HeadsView<T> total) {
  using Chain = SumsBefore<T>;
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const ChunkTask task(in, index);
    const int64_t token = task.first + Warp::lane();
    const T s = token < task.last ? *in.scores.at(task.b, task.h, token) : -infinity<T>();
    const bool counts = token < task.last && in.counts(task.b, token, s);
    const uint32_t counted = lanes_where(counts);
    const typename Chain::State start{before.maximum[index], before.total[index], 0};
    typename Chain::State sums{counts ? s : -infinity<T>(), counts ? 1.0 : 0.0, 0};  // up to this lane's token
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const auto left = left_of(sums, distance);
      if (Warp::lane() >= distance) sums = Chain::merged(left, sums);
    }
    sums = Chain::merged(start, sums);
    auto last = left_of(sums, 1);
    if (Warp::lane() == 0) last = start;
    const T z = static_cast<T>(sums.z);
    const T weight = counts ? exp(s - sums.m) / z : T{0};  // [Fastformer eq.3] [Fastformer eq.5]
    const T factor = last.z == 0 ? T{0} : exp(last.m - sums.m) * static_cast<T>(last.z) / z;
    if (token < task.last) {
      *maximum.at(task.b, task.h, token) = sums.m;
      *total.at(task.b, task.h, token) = z;
    }

    for (int64_t block = 0; block < in.width; block += kWarp) {
      const int64_t d = block + Warp::lane();
      const bool exists = d < in.width;
      T y = exists && start.z != 0 ? static_cast<T>(before.weighted[index * in.width + d] / start.z) : T{0};
      for (int first = 0; first < kChunk; first += kBatch) {
        T x[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int64_t i = task.first + first + j;
          x[j] = exists && i < task.last ? in.x.at(task.b, task.h, i)[d] : T{0};
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int64_t i = task.first + first + j;
          const T w = value_of(weight, first + j);
          const bool adds = (counted >> (first + j) & 1) != 0;
          y = y * value_of(factor, first + j) + (adds ? w * x[j] : T{0});  // [Fastformer eq.4] [Fastformer eq.6]
          if (exists && i < task.last) out.at(task.b, task.h, i)[d] = y;
        }
      }
    }
  }
}

// ---- Backward ----

/// Further arguments of the backward kernels. There is one result for each token (causal), or one for each head.
template <class T>
struct PoolResults {
  HeadsView<const T> dout, out, maximum, total;
  T* products;  ///< [B, H, count]: G·out, with G = ∂L/∂out
  int64_t count;

  __device__ T& product(const PoolInputs<T>& in, int64_t b, int64_t h, int64_t i) const {
    return products[(b * in.heads + h) * count + i];
  }
  /// e^(L_i − L_next), where L = m + ln z is the log-sum-exp; 0 where no token counts yet.
  __device__ T decay(int64_t b, int64_t h, int64_t i, int64_t next) const {
    const T z = *total.at(b, h, i), z_next = *total.at(b, h, next);
    if (z == 0) return 0;
    return exp(*maximum.at(b, h, i) - *maximum.at(b, h, next)) * z / z_next;
  }
};

/// G·out for each result. A few lanes compute one result.
template <class T>
__global__ void find_products(PoolInputs<T> in, PoolResults<T> results, int lanes) {
  for_rows(in.tasks / in.chunks * results.count, lanes, [&](int64_t row, int lane, bool exists) {
    const int64_t head = row / results.count, i = row % results.count, b = head / in.heads, h = head % in.heads;
    const T* g = results.dout.at(b, h, i);
    const T* y = results.out.at(b, h, i);
    T product = 0;
#pragma unroll kPack
    for (int64_t d = lane; d < in.width; d += lanes) product += g[d] * y[d];
    const double sum = sum_of_row(static_cast<double>(product), lanes);
    if (exists && lane == 0) results.product(in, b, h, i) = static_cast<T>(sum);
  });
}

/// Causal: the cotangents carried from chunk to chunk, from the last token to the first: r ← e^(L_i − L_{i+1}) r +
/// G_i and t ← e^(L_i − L_{i+1}) t + G_i·out_i.
template <class T>
struct CarriedCotangents {
  T* sums;     ///< [tasks, width + 1]: r, and t in the last column
  T* factors;  ///< [tasks]: e^(L_i − L_j) from the first token i of a chunk to the first token j of the next one

  __device__ T& at(const PoolInputs<T>& in, int64_t task, int64_t d) const { return sums[task * (in.width + 1) + d]; }
};

/// r and t of each chunk alone, relative to L of its first token.
template <class T>
__global__ void gather_chunks(PoolInputs<T> in, PoolResults<T> results, CarriedCotangents<T> carried) {
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const ChunkTask task(in, index);
    const int64_t i = task.first + Warp::lane();
    const bool exists = i < task.last;
    const T weight = exists ? results.decay(task.b, task.h, task.first, i) : T{0};
    const T product = exists ? weight * results.product(in, task.b, task.h, i) : T{0};
    const T t = Warp::reduce(product, Plus());
    sum_rows(&carried.at(in, index, 0), results.dout, task, in.width, weight, lanes_where(exists));
    if (Warp::lane() != 0) continue;
    carried.at(in, index, in.width) = t;
    carried.factors[index] = task.last < in.tokens ? results.decay(task.b, task.h, task.first, task.last) : T{0};
  }
}

/// The chain from the last chunk to the first: turns each chunk's r and t, in place, into those of all tokens after
/// the chunk, relative to L of the next chunk's first token.
template <class T>
struct SumsBehind {
  struct State {
    T factor, sum;
  };

  PoolInputs<T> in;
  CarriedCotangents<T> carried;

  __device__ static State none() { return {1, 0}; }
  __device__ static State merged(const State& behind, const State& own) {
    return {behind.factor * own.factor, behind.sum * own.factor + own.sum};
  }
  __device__ int64_t task(int64_t head, int64_t position) const { return (head + 1) * in.chunks - 1 - position; }
  __device__ State load(int64_t head, int64_t position, int64_t d) const {
    return {carried.factors[task(head, position)], carried.at(in, task(head, position), d)};
  }
  __device__ void pass(int64_t head, int64_t position, int64_t d, const State& behind) const {
    carried.at(in, task(head, position), d) = behind.sum;
  }
  __device__ bool finishes() const { return false; }
  __device__ void finish(int64_t, int64_t, const State&) const {}
};

/// Sums each of a batch's kBatch numbers over the warp. Lanes 4 j … 4 j + 3 get the sum of number j.
template <class T>
__device__ T reduce_batch(T (&x)[kBatch]) {
#pragma unroll
  for (int half = kBatch / 2, distance = kWarp / 2; half > 0; half /= 2, distance /= 2) {
    const bool upper = (Warp::lane() & distance) != 0;  // this lane continues with the upper half of the numbers
#pragma unroll
    for (int j = 0; j < half; ++j) {
      const T other = shuffle(upper ? x[j] : x[j + half], distance);
      x[j] = (upper ? x[j + half] : x[j]) + other;
    }
  }
  return reduce_lanes<kWarp / kBatch>(x[0], Plus());
}

/// With r and t carried on from the later tokens (causal), or those of a head's only result:
///   ∂x_i = e^(s_i − L_i) r,  ∂s_i = e^(s_i − L_i) (x_i·r − t)
/// A warp takes a chunk. First each lane has a token, then each lane has a column.
template <class T>
__global__ void pool_chunks_backward(PoolInputs<T> in, PoolResults<T> results, CarriedCotangents<T> carried,
                                     HeadsView<T> dscores, HeadsView<T> dx) {
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const ChunkTask task(in, index);
    const int64_t token = task.first + Warp::lane();
    T weight = 0, factor = 0, product = 0;  // of the lane's token
    bool counts = false;
    if (token < task.last) {
      const int64_t result = in.causal ? token : 0;
      const T s = *in.scores.at(task.b, task.h, token);
      counts = in.counts(task.b, token, s);
      if (counts) {
        weight = exp(s - *results.maximum.at(task.b, task.h, result)) / *results.total.at(task.b, task.h, result);
      }
      if (in.causal) product = results.product(in, task.b, task.h, token);
      if (in.causal && token + 1 < in.tokens) factor = results.decay(task.b, task.h, token, token + 1);
    }

    const uint32_t counted = lanes_where(counts);
    T ds = 0;  // of the lane's token, not yet multiplied by its weight
    for (int64_t block = 0; block < in.width; block += kWarp) {
      const int64_t d = block + Warp::lane();
      const bool exists = d < in.width;
      T r = 0, t = in.causal ? carried.at(in, index, in.width) : results.product(in, task.b, task.h, 0);
      if (exists) r = in.causal ? carried.at(in, index, d) : results.dout.at(task.b, task.h, 0)[d];
      for (int first = kChunk - kBatch; first >= 0; first -= kBatch) {
        T g[kBatch], x[kBatch], x_times_r[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int64_t i = task.first + first + j;
          const bool reads = exists && i < task.last;
          g[j] = reads && in.causal ? results.dout.at(task.b, task.h, i)[d] : T{0};
          x[j] = reads ? in.x.at(task.b, task.h, i)[d] : T{0};
        }
#pragma unroll
        for (int j = kBatch - 1; j >= 0; --j) {
          const int64_t i = task.first + first + j;
          if (in.causal) {
            const T f = value_of(factor, first + j);
            r = r * f + g[j];
            t = t * f + value_of(product, first + j);
          }
          const T w = value_of(weight, first + j);
          const bool adds = (counted >> (first + j) & 1) != 0;
          // A token that no sum includes may be NaN or infinite, and so may r before the first token in a sum.
          if (exists && i < task.last)
            dx.at(task.b, task.h, i)[d] = adds ? w * r : T{0};  // gradient of [Fastformer eq.4] [Fastformer eq.6]
          x_times_r[j] = adds ? x[j] * r : T{0};
          if (block == 0 && Warp::lane() == first + j) ds -= t;
        }
        const T sum = value_of(reduce_batch(x_times_r), Warp::lane() % kBatch * (kWarp / kBatch));
        if (Warp::lane() / kBatch == first / kBatch) ds += sum;
      }
    }
    // Gradient of [Fastformer eq.3] [Fastformer eq.5].
    if (token < task.last) *dscores.at(task.b, task.h, token) = counts ? weight * ds : T{0};
  }
}

void attention_pool(View out, View maximum, View total, View scores, View x, const View* padding_mask, bool causal) {
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const PoolInputs<T> in(scores, x, padding_mask, causal);
    const int64_t warps = ceil_div(in.tasks, Warp::rows);
    const Scratch<T> maxima(2 * in.tasks), weighted(in.tasks * in.width);
    const Scratch<double> totals(2 * in.tasks);
    const SoftmaxSums<T> sums{maxima.data(), totals.data(), weighted.data()};
    const SoftmaxSums<T> before{maxima.data() + in.tasks, totals.data() + in.tasks, weighted.data()};
    launch(sum_chunks<T>, warps, kThreads, in, sums);
    const SumsBefore<T> chain{in, sums, before, HeadsView<T>(out), HeadsView<T>(maximum), HeadsView<T>(total)};
    const Scan scan(in.tasks / in.chunks, std::max(in.width, int64_t{1}), in.chunks);
    launch(scan_chunks<SumsBefore<T>>, scan.blocks(), kThreads, chain, scan);
    if (!causal) return;
    launch(pool_chunks<T>, warps, kThreads, in, before, HeadsView<T>(out), HeadsView<T>(maximum),
           HeadsView<T>(total));
  });
}

void attention_pool_backward(View dscores, View dx, View dout, View out, View maximum, View total, View scores,
                             View x, const View* padding_mask, bool causal) {
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const PoolInputs<T> in(scores, x, padding_mask, causal);
    const int64_t heads = in.tasks / in.chunks, count = causal ? in.tokens : 1;
    const int64_t warps = ceil_div(in.tasks, Warp::rows);
    const Scratch<T> products(heads * count), carried_sums(causal ? in.tasks * (in.width + 1) : 0);
    const Scratch<T> factors(causal ? in.tasks : 0);
    const PoolResults<T> results{HeadsView<const T>(dout),  HeadsView<const T>(out), HeadsView<const T>(maximum),
                                 HeadsView<const T>(total), products.data(),         count};
    const CarriedCotangents<T> carried{carried_sums.data(), factors.data()};
    const int lanes = lanes_for(in.width);
    launch(find_products<T>, blocks_for(heads * count * lanes), kThreads, in, results, lanes);
    if (causal) {
      launch(gather_chunks<T>, warps, kThreads, in, results, carried);
      const Scan scan(heads, in.width + 1, in.chunks);
      launch(scan_chunks<SumsBehind<T>>, scan.blocks(), kThreads, SumsBehind<T>{in, carried}, scan);
    }
    launch(pool_chunks_backward<T>, warps, kThreads, in, results, carried, HeadsView<T>(dscores), HeadsView<T>(dx));
  });
}

}  // namespace

void fill_attention_pool(Backend& table) {
  table.attention_pool = attention_pool;
  table.attention_pool_backward = attention_pool_backward;
}

}  // namespace linnet::cuda
