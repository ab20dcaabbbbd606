#include <algorithm>

#include <linnet/cuda/group.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/math.cuh>
#include <linnet/cuda/scratch.cuh>

/// Additive pooling (Wu et al. 2021, eqs. 3–6): what the CPU's kernel does token by token, done chunk by chunk. With
/// m the largest score so far, z = sum e^(s − m) and a = sum e^(s − m) x, a chunk's (m, z, a) stands for its tokens:
///   1. a warp for each chunk sums it up;
///   2. the chunks' sums are added up in order, so that each chunk knows what comes before it, or joined to one;
///   3. a warp for each chunk goes through its tokens again, from there (causal pooling only).
/// Backward goes the same way from the last chunk to the first. Memory bounds these kernels, at long sequences; x is
/// read twice by causal pooling, once by the other.

namespace linnet::cuda {
namespace {

constexpr int kChunk = 64;  // tokens
using Warp = Group<kWarp>;
using Block = Group<kThreads>;

/// What all kernels read.
template <class T>
struct Pool {
  Heads<const T> scores, x;
  Keep keep;
  int64_t heads, tokens, width, chunks, tasks;  ///< a task is one chunk of one head of one sequence
  bool causal;

  Pool(const View& scores_view, const View& x_view, const View* keep_view, bool causal_)
      : scores(scores_view),
        x(x_view),
        keep(keep_view),
        heads(x_view.shape[1]),
        tokens(x_view.shape[2]),
        width(x_view.shape[3]),
        chunks(std::max(ceil_div(tokens, kChunk), int64_t{1})),  // one without tokens, too, for results of 0
        tasks(x_view.shape[0] * heads * chunks),
        causal(causal_) {}

  /// Whether token `i` is in any sum: not when it is padding, nor when its score is −∞.
  __device__ bool counts(int64_t b, int64_t i, T score) const { return score != -infinity<T>() && keep.has(b, i); }
};

/// One chunk: tokens first … last − 1.
struct Task {
  int64_t index, b, h, chunk, first, last;

  template <class T>
  __device__ Task(const Pool<T>& in, int64_t index_)
      : index(index_),
        b(index / in.chunks / in.heads),
        h(index / in.chunks % in.heads),
        chunk(index % in.chunks),
        first(chunk * kChunk),
        last(min(first + kChunk, in.tokens)) {}
};

/// (m, z, a) of each task: of its chunk alone, then of all chunks before it.
template <class T>
struct Sums {
  T* maximum;
  double* total;
  T* weighted;  ///< [tasks, width]
};

// ---- Forward ----

template <class T>
__global__ void sum_chunks(Pool<T> in, Sums<T> sums) {
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const Task task(in, index);
    T m = -infinity<T>();
    for (int64_t i = task.first + Warp::lane(); i < task.last; i += kWarp) {
      const T s = *in.scores.at(task.b, task.h, i);
      if (in.counts(task.b, i, s)) m = Larger()(m, s);
    }
    m = Warp::fold(m, Larger());
    double z = 0;
    for (int64_t i = task.first + Warp::lane(); i < task.last; i += kWarp) {
      const T s = *in.scores.at(task.b, task.h, i);
      if (in.counts(task.b, i, s)) z += static_cast<double>(exp(s - m));
    }
    z = Warp::fold(z, Plus());
    for (int64_t d = Warp::lane(); d < in.width; d += kWarp) {
      T a = 0;
      for (int64_t i = task.first; i < task.last; ++i) {
        const T s = *in.scores.at(task.b, task.h, i);
        if (in.counts(task.b, i, s)) a += exp(s - m) * in.x.at(task.b, task.h, i)[d];
      }
      sums.weighted[index * in.width + d] = a;
    }
    if (Warp::lane() == 0) {
      sums.maximum[index] = m;
      sums.total[index] = z;
    }
  }
}

/// e^(a − b), the factor that turns sums relative to a into sums relative to b ≥ a; 0 where there is no sum yet.
template <class T>
__device__ T fade(T a, T b) {
  return a == -infinity<T>() ? T{0} : exp(a - b);
}

/// Not causal: the sums of all chunks. A block for each head; its threads share the chunks, then the columns.
template <class T>
__global__ void join_chunks(Pool<T> in, Sums<T> sums, Heads<T> out, Heads<T> maximum, Heads<T> total) {
  for (int64_t head = blockIdx.x; head < in.tasks / in.chunks; head += gridDim.x) {
    const int64_t b = head / in.heads, h = head % in.heads, first = head * in.chunks;
    T m = -infinity<T>();
    for (int64_t i = threadIdx.x; i < in.chunks; i += kThreads) m = Larger()(m, sums.maximum[first + i]);
    m = Block::fold(m, Larger());
    T* factors = sums.maximum + first;  // these take the place of what is used for the last time
    double z = 0;
    for (int64_t i = threadIdx.x; i < in.chunks; i += kThreads) {
      factors[i] = fade(factors[i], m);
      z += sums.total[first + i] * factors[i];
    }
    z = Block::fold(z, Plus());  // after which all threads see all factors
    for (int64_t d = threadIdx.x; d < in.width; d += kThreads) {
      double a = 0;
#pragma unroll 8
      for (int64_t i = 0; i < in.chunks; ++i) {
        a += static_cast<double>(factors[i]) * static_cast<double>(sums.weighted[(first + i) * in.width + d]);
      }
      out.at(b, h, 0)[d] = z == 0 ? T{0} : static_cast<T>(a / z);
    }
    if (threadIdx.x != 0) continue;
    *maximum.at(b, h, 0) = m;
    *total.at(b, h, 0) = static_cast<T>(z);
  }
}

/// Causal: one thread for each column of each head; those of column 0 look after m and z. `before` gets the sums of
/// all chunks before.
template <class T>
__global__ void add_chunks(Pool<T> in, Sums<T> sums, Sums<T> before) {
  const int64_t columns = max(in.width, int64_t{1});
  for (int64_t item = first_item(); item < in.tasks / in.chunks * columns; item += item_step()) {
    const int64_t head = item / columns, d = item % columns;
    T m = -infinity<T>(), a = 0;
    double z = 0;
    for (int64_t chunk = 0; chunk < in.chunks; ++chunk) {
      const int64_t task = head * in.chunks + chunk;
      if (d < in.width) before.weighted[task * in.width + d] = a;
      if (d == 0) {
        before.maximum[task] = m;
        before.total[task] = z;
      }
      const T m_chunk = sums.maximum[task], m_next = Larger()(m, m_chunk);
      const T old_fade = fade(m, m_next), chunk_fade = fade(m_chunk, m_next);
      if (d < in.width) a = a * old_fade + sums.weighted[task * in.width + d] * chunk_fade;
      z = z * old_fade + sums.total[task] * chunk_fade;
      m = m_next;
    }
  }
}

/// A result after each token:
///   m' = max(m, s_i),  z ← e^(m − m') z + e^(s_i − m'),  a ← e^(m − m') a + e^(s_i − m') x_i,  out = a / z
template <class T>
__global__ void pool_chunks(Pool<T> in, Sums<T> before, Heads<T> out, Heads<T> maximum, Heads<T> total) {
  const int64_t columns = max(in.width, int64_t{1});
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const Task task(in, index);
    for (int64_t d = Warp::lane(); d < columns; d += kWarp) {
      const bool there = d < in.width;
      T m = before.maximum[index], a = there ? before.weighted[index * in.width + d] : T{0};
      double z = before.total[index];
      for (int64_t i = task.first; i < task.last; ++i) {
        const T s = *in.scores.at(task.b, task.h, i);
        if (in.counts(task.b, i, s)) {
          const T m_next = s > m ? s : m;
          const T shrink = exp(m - m_next), weight = exp(s - m_next);
          z = z * shrink + weight;
          if (there) a = a * shrink + in.x.at(task.b, task.h, i)[d] * weight;
          m = m_next;
        }
        if (there) out.at(task.b, task.h, i)[d] = z == 0 ? T{0} : a * static_cast<T>(1 / z);
        if (d == 0) {
          *maximum.at(task.b, task.h, i) = m;
          *total.at(task.b, task.h, i) = static_cast<T>(z);
        }
      }
    }
  }
}

// ---- Backward ----

/// What the backward kernels read besides. Results are those of each token (causal), or the one of a head.
template <class T>
struct Results {
  Heads<const T> dout, out, maximum, total;
  T* products;  ///< [B, H, results]: G·out
  int64_t count;

  /// Column d of G_i, or G_i·out_i for the column behind the last.
  __device__ T cotangent(const Pool<T>& in, int64_t b, int64_t h, int64_t i, int64_t d) const {
    return d < in.width ? dout.at(b, h, i)[d] : products[(b * in.heads + h) * count + i];
  }
  /// e^(L_i − L_next), where L = m + ln z; 0 where no token counted yet.
  __device__ T decay(int64_t b, int64_t h, int64_t i, int64_t next) const {
    const T z = *total.at(b, h, i);
    if (z == 0) return 0;
    return exp(*maximum.at(b, h, i) - *maximum.at(b, h, next)) * z / *total.at(b, h, next);
  }
};

/// A warp for each result.
template <class T>
__global__ void find_products(Pool<T> in, Results<T> results) {
  const int64_t rows = in.tasks / in.chunks * results.count;
  for (int64_t row = Warp::first_row(); row < rows; row += Warp::row_step()) {
    const int64_t head = row / results.count, i = row % results.count, b = head / in.heads, h = head % in.heads;
    const T* g = results.dout.at(b, h, i);
    const T* y = results.out.at(b, h, i);
    const double product = Warp::sum<T>(in.width, [=](int64_t d) { return g[d] * y[d]; });
    if (Warp::lane() == 0) results.products[row] = static_cast<T>(product);
  }
}

/// Causal, for each chunk alone: r ← e^(L_i − L_{i+1}) r + G_i, and t the same of G·out, from its last token to its
/// first. `carried` is [tasks, width + 1]: r, and t in the last column.
template <class T>
__global__ void gather_chunks(Pool<T> in, Results<T> results, T* carried) {
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const Task task(in, index);
    for (int64_t d = Warp::lane(); d <= in.width; d += kWarp) {
      T r = 0;
      for (int64_t i = task.last - 1; i >= task.first; --i) {
        if (i + 1 < task.last) r *= results.decay(task.b, task.h, i, i + 1);
        r += results.cotangent(in, task.b, task.h, i, d);
      }
      carried[index * (in.width + 1) + d] = r;
    }
  }
}

/// One thread for each column of each head turns these into what comes from behind each chunk, relative to L of the
/// next chunk's first token.
template <class T>
__global__ void carry_chunks(Pool<T> in, Results<T> results, T* carried) {
  const int64_t columns = in.width + 1;
  for (int64_t item = first_item(); item < in.tasks / in.chunks * columns; item += item_step()) {
    const int64_t head = item / columns, d = item % columns, b = head / in.heads, h = head % in.heads;
    T r = 0;
    for (int64_t chunk = in.chunks - 1; chunk >= 0; --chunk) {
      T& place = carried[(head * in.chunks + chunk) * columns + d];
      const T own = place;
      place = r;
      const int64_t first = chunk * kChunk;
      r = chunk + 1 < in.chunks ? r * results.decay(b, h, first, first + kChunk) + own : own;
    }
  }
}

/// With r and t gone on with from what comes from behind, or those of the one result of a head:
///   ∂x_i = e^(s_i − L_i) r,  ∂s_i = e^(s_i − L_i) (x_i·r − t)
template <class T>
__global__ void pool_chunks_backward(Pool<T> in, Results<T> results, const T* carried, Heads<T> dscores,
                                     Heads<T> dx) {
  __shared__ T of_block[Warp::rows][kChunk];
  T* x_times_r = of_block[threadIdx.x / kWarp];  // of each token; only its own warp's first lane uses it
  for (int64_t index = Warp::first_row(); index < in.tasks; index += Warp::row_step()) {
    const Task task(in, index);
    const auto weight_of = [&](int64_t i) {  // 0 for a token that is in no sum
      const T s = *in.scores.at(task.b, task.h, i);
      if (!in.counts(task.b, i, s)) return T{0};
      const int64_t result = in.causal ? i : 0;
      return exp(s - *results.maximum.at(task.b, task.h, result)) / *results.total.at(task.b, task.h, result);
    };
    const auto go_on = [&](T& sum, int64_t i, int64_t d) {
      if (!in.causal) {
        sum = results.cotangent(in, task.b, task.h, 0, d);
        return;
      }
      const T factor = i + 1 < in.tokens ? results.decay(task.b, task.h, i, i + 1) : T{0};
      sum = sum * factor + results.cotangent(in, task.b, task.h, i, d);
    };

    for (int64_t block = 0; block < in.width; block += kWarp) {
      const int64_t d = block + Warp::lane();
      const bool there = d < in.width;
      T r = there && in.causal ? carried[index * (in.width + 1) + d] : T{0};
      for (int64_t i = task.last - 1; i >= task.first; --i) {
        if (there) go_on(r, i, d);
        const T weight = weight_of(i);
        T product = 0;
        if (there) {
          // A token that is in no sum may hold anything, as may r before the first one that is.
          dx.at(task.b, task.h, i)[d] = weight == 0 ? T{0} : weight * r;
          if (weight != 0) product = in.x.at(task.b, task.h, i)[d] * r;
        }
        product = Warp::fold(product, Plus());
        if (Warp::lane() == 0) x_times_r[i - task.first] = (block == 0 ? T{0} : x_times_r[i - task.first]) + product;
      }
    }

    if (Warp::lane() != 0) continue;
    T t = in.causal ? carried[index * (in.width + 1) + in.width] : T{0};
    for (int64_t i = task.last - 1; i >= task.first; --i) {
      go_on(t, i, in.width);
      const T weight = weight_of(i), product = in.width == 0 ? T{0} : x_times_r[i - task.first];
      *dscores.at(task.b, task.h, i) = weight == 0 ? T{0} : weight * (product - t);
    }
  }
}

void additive_pool(View out, View maximum, View total, View scores, View x, const View* keep, bool causal) {
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Pool<T> in(scores, x, keep, causal);
    const int64_t warps = ceil_div(in.tasks, Warp::rows);
    const int64_t heads = in.tasks / in.chunks, kinds = causal ? 2 : 1;  // of sums: of chunks, and of those before
    const Scratch<T> maxima(kinds * in.tasks), weighted(kinds * in.tasks * in.width);
    const Scratch<double> totals(kinds * in.tasks);
    const Sums<T> sums{maxima.data(), totals.data(), weighted.data()};
    launch(sum_chunks<T>, warps, kThreads, in, sums);
    if (!causal) {
      return launch(join_chunks<T>, heads, kThreads, in, sums, Heads<T>(out), Heads<T>(maximum), Heads<T>(total));
    }
    const Sums<T> before{maxima.data() + in.tasks, totals.data() + in.tasks, weighted.data() + in.tasks * in.width};
    launch(add_chunks<T>, blocks_for(heads * std::max(in.width, int64_t{1})), kThreads, in, sums, before);
    launch(pool_chunks<T>, warps, kThreads, in, before, Heads<T>(out), Heads<T>(maximum), Heads<T>(total));
  });
}

void additive_pool_backward(View dscores, View dx, View dout, View out, View maximum, View total, View scores, View x,
                            const View* keep, bool causal) {
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Pool<T> in(scores, x, keep, causal);
    const int64_t heads = in.tasks / in.chunks, count = causal ? in.tokens : 1;
    const int64_t warps = ceil_div(in.tasks, Warp::rows);
    const Scratch<T> products(heads * count), carried(causal ? in.tasks * (in.width + 1) : 0);
    const Results<T> results{Heads<const T>(dout),  Heads<const T>(out), Heads<const T>(maximum),
                             Heads<const T>(total), products.data(),     count};
    launch(find_products<T>, ceil_div(heads * count, Warp::rows), kThreads, in, results);
    if (causal) {
      launch(gather_chunks<T>, warps, kThreads, in, results, carried.data());
      launch(carry_chunks<T>, blocks_for(heads * (in.width + 1)), kThreads, in, results, carried.data());
    }
    launch(pool_chunks_backward<T>, warps, kThreads, in, results, carried.data(), Heads<T>(dscores), Heads<T>(dx));
  });
}

}  // namespace

void fill_additive_pool(Backend& table) {
  table.additive_pool = additive_pool;
  table.additive_pool_backward = additive_pool_backward;
}

}  // namespace linnet::cuda
