#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/head_rows.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/fastformer/row_lanes.cuh>

/// How whole_additive.cu shares its work. A few neighbouring lanes of a warp, each with a pack of neighbouring
/// columns, take one head in a run of tokens; the lanes beside them take the next heads, which lie beside it in
/// memory, or other tokens. What a run adds up stays in registers, its block joins that of the runs of a head, and
/// then a block for each head joins those of the blocks. Tensors of tokens have elements of type E, all else is of
/// type T: for bfloat16 that is float, else they are one type.

namespace linnet::cuda::additive {

constexpr int kRun = 32;   ///< tokens
constexpr int kBatch = 4;  ///< of a run, whose loads are on the way together
static_assert(kRun % kBatch == 0, "batches do not reach into the next run");

/// Means under the weights of a softmax, after dropout, for all B·H heads of all sequences: the means [B·H, D], and
/// for each head the largest score m, z = Σ e^(s − m) and what dropout has left of the weights' sum.
template <class T>
struct Pool {
  T *mean, *maximum, *total, *kept;

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 3); }
  Pool(T* memory, int64_t heads, int64_t width)
      : mean(memory), maximum(mean + heads * width), total(maximum + heads), kept(total + heads) {}
};

/// What all kernels read, and how threads share the work, which sizes decide.
template <class T>
struct Problem {
  Pool<T> queries, keys;  ///< of the two stages, α and β
  PaddingMask padding_mask;
  int64_t rows, heads, tokens, width;  ///< a row is one head of one sequence
  T scale, kept_factor;
  bool adds, drops;
  uint64_t threshold;

  int lanes;                      ///< of a head: a power of two
  int block_heads, block_tokens;  ///< that a block takes at a time
  int64_t head_blocks, chunks;    ///< a chunk is kRun · block_tokens tokens, as many runs as block_tokens
  int64_t tasks;                  ///< a task is a chunk and the heads of a block

  Problem(const AdditiveAttentionInputs& given, const View& pools)
      : queries(data<T>(pools), given.q.shape[0] * given.q.shape[1], given.q.shape[3]),
        keys(queries.kept + given.q.shape[0] * given.q.shape[1], given.q.shape[0] * given.q.shape[1],
             given.q.shape[3]),
        padding_mask(given.padding_mask),
        rows(given.q.shape[0] * given.q.shape[1]),
        heads(given.q.shape[1]),
        tokens(given.q.shape[2]),
        width(given.q.shape[3]),
        scale(static_cast<T>(1 / std::sqrt(static_cast<double>(width)))),
        kept_factor(static_cast<T>(1 / (1 - given.dropout))),
        adds(given.add),
        drops(given.dropout > 0),
        threshold(keep_threshold(1 - given.dropout)),
        lanes(lanes_for(width)) {
    block_heads = static_cast<int>(std::min<int64_t>(heads, kThreads / lanes));
    block_tokens = kThreads / lanes / block_heads;
    head_blocks = ceil_div(heads, block_heads);
    chunks = std::max<int64_t>(ceil_div(tokens, kRun * block_tokens), 1);  // one for no tokens, too: results of 0
    tasks = given.q.shape[0] * head_blocks * chunks;
  }

  /// Of a token's weight: 0 or 1 / (1 − rate), or 1 without dropout.
  __device__ T factor(RandomKey dropout_rng, int64_t row, int64_t i) const {
    if (!drops) return 1;
    return random_word(dropout_rng, static_cast<uint64_t>(row * tokens + i)) < threshold ? kept_factor : T{0};
  }
};

/// Where a thread works in a task: on `columns` columns of one head, those from `column` on, and on every
/// `block_tokens`-th token from `slot` on behind each one that its block takes.
struct Place {
  int64_t b, h, row, chunk, begin, end;
  int slot, column, columns;

  template <class T>
  __device__ Place(const Problem<T>& in, int64_t task) {
    const int group = static_cast<int>(threadIdx.x) / in.lanes;
    chunk = task % in.chunks;
    b = task / in.chunks / in.head_blocks;
    h = task / in.chunks % in.head_blocks * in.block_heads + group % in.block_heads;
    slot = group / in.block_heads;
    begin = chunk * kRun * in.block_tokens;
    end = min(begin + kRun * in.block_tokens, in.tokens);
    column = static_cast<int>(threadIdx.x) % in.lanes * kPack;
    columns = static_cast<int>(max(min(in.width - column, int64_t{kPack}), int64_t{0}));
    if (h >= in.heads || slot >= in.block_tokens) h = columns = 0;  // a thread too many: it comes to all shuffles
    row = b * in.heads + h;
  }

  /// This thread's token `j` of the batch that its block takes from `first` on.
  template <class T>
  __device__ int64_t token(const Problem<T>& in, int64_t first, int j) const {
    return first + slot + j * in.block_tokens;
  }
};

/// What a stage pools, and the vector that makes its scores: s_i = w·x_i/√D, for keys (w_k ∘ q)·k_i/√D (eqs. 3 and
/// 5). (Where q is added, not multiplied, w_k·q is the same for all tokens, which changes no weight.)
template <class T, class E>
struct Stage {
  HeadRows<const E> x;
  const T *w, *factor;  ///< [H, D], and [B·H, D] or null
  int64_t w_stride[2];
  LiveKey dropout_rng;
  Pool<T> pool;

  __device__ Pack<T> weight(const Problem<T>& in, const Place& at) const {
    Pack<T> y = {};
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      if (c >= at.columns) break;
      const T times = factor == nullptr ? T{1} : factor[at.row * in.width + at.column + c];
      y.of[c] = in.scale * w[at.h * w_stride[0] + (at.column + c) * w_stride[1]] * times;
    }
    return y;
  }
};

// ---- Vectors in packs ----

/// This thread's columns of its row of x [B·H, D]; 0 for those that are not there.
template <class T>
__device__ Pack<T> load_vector(const T* x, const Problem<T>& in, const Place& at) {
  Pack<T> y = {};
#pragma unroll
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) y.of[c] = x[at.row * in.width + at.column + c];
  }
  return y;
}

template <class Y, class X>
__device__ Pack<Y> converted(const Pack<X>& x) {
  Pack<Y> y;
  for (int c = 0; c < kPack; ++c) y.of[c] = static_cast<Y>(x.of[c]);
  return y;
}

template <class T>
__device__ T dot(const Pack<T>& x, const Pack<T>& y) {
  T sum = 0;
  for (int c = 0; c < kPack; ++c) sum += x.of[c] * y.of[c];
  return sum;
}

/// sum += a·x
template <class T>
__device__ void add_to(Pack<T>& sum, T a, const Pack<T>& x) {
  for (int c = 0; c < kPack; ++c) sum.of[c] += a * x.of[c];
}

/// Sums over the lanes of a head, at each of them, of several numbers. All of the warp must call it.
template <class T, int kCount>
__device__ void reduce_head(T (&x)[kCount], int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += shuffle(x[j], distance);
  }
}

/// The global key (eq. 6): k = q ∘ Σ β_i k_i, or with sums q Σ β_i + Σ β_i k_i.
template <class T>
__device__ T global_key(const Problem<T>& in, int64_t row, int64_t d) {
  const T q = in.queries.mean[row * in.width + d], mean = in.keys.mean[row * in.width + d];
  return in.adds ? q * in.keys.kept[row] + mean : q * mean;
}
template <class T>
__device__ Pack<T> global_key(const Problem<T>& in, const Place& at) {
  Pack<T> y = {};
#pragma unroll
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) y.of[c] = global_key(in, at.row, at.column + c);
  }
  return y;
}

// ---- Batches of tokens ----

/// Which tokens of a batch exist, none for a thread without columns, and which of them are no padding.
template <class T>
__device__ void find_there(bool (&there)[kBatch], const Problem<T>& in, const Place& at, int64_t first) {
#pragma unroll
  for (int j = 0; j < kBatch; ++j) there[j] = at.columns > 0 && at.token(in, first, j) < in.tokens;
}
template <class T>
__device__ void find_kept(bool (&kept)[kBatch], const Problem<T>& in, const Place& at, int64_t first) {
  find_there(kept, in, at, first);
#pragma unroll
  for (int j = 0; j < kBatch; ++j) kept[j] = kept[j] && in.padding_mask.has(at.b, at.token(in, first, j));
}

/// This thread's columns of a batch's rows of x; 0, unread, where `wanted` denies it.
template <class T, class E>
__device__ void load_batch(Pack<T> (&y)[kBatch], const HeadRows<const E>& x, const Problem<T>& in, const Place& at,
                           int64_t first, const bool (&wanted)[kBatch]) {
  const E* row = x.at(at.b, at.h, at.token(in, first, 0)) + at.column;
  const int64_t step = in.block_tokens * x.row_stride;
  Pack<E> loaded[kBatch] = {};
  if (x.packed) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (wanted[j]) loaded[j] = *reinterpret_cast<const Pack<E>*>(row + j * step);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      for (int c = 0; c < kPack; ++c) {
        if (wanted[j] && c < at.columns) loaded[j].of[c] = row[j * step + c];
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kBatch; ++j) y[j] = converted<T>(loaded[j]);
}

template <class T, class E>
__device__ void store(const HeadRows<E>& y, const Place& at, int64_t i, const Pack<T>& x) {
  E* row = y.at(at.b, at.h, i) + at.column;
  const Pack<E> rounded = converted<E>(x);
  if (y.packed) {
    *reinterpret_cast<Pack<E>*>(row) = rounded;
    return;
  }
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) row[c] = rounded.of[c];
  }
}

// ---- Sums over runs ----

/// What chunks leave, relative to their own largest score: Σ e^(s − m) x [B·H, chunks, D], and the rest [B·H,
/// chunks].
template <class T>
struct Chunks {
  T *sum, *maximum, *total, *kept;

  static int64_t size(const Problem<T>& in) { return in.rows * in.chunks * (in.width + 3); }
  Chunks(T* memory, const Problem<T>& in)
      : sum(memory),
        maximum(sum + in.rows * in.chunks * in.width),
        total(maximum + in.rows * in.chunks),
        kept(total + in.rows * in.chunks) {}
};

/// What the runs of a chunk have for the same columns of a head, folded, at the thread of the first run. All of the
/// block must call it.
template <class T, class V, class F>
__device__ V reduce_runs(V value, const Problem<T>& in, F fold) {
  __shared__ V of_thread[kThreads];
  const int thread = static_cast<int>(threadIdx.x), threads = in.lanes * in.block_heads, slot = thread / threads;
  of_thread[thread] = value;
  for (int left = in.block_tokens; left > 1;) {
    const int half = (left + 1) / 2;
    __syncthreads();
    if (slot + half < left) of_thread[thread] = value = fold(value, of_thread[thread + half * threads]);
    left = half;
  }
  __syncthreads();  // before the next fold writes there
  return value;
}

template <class T>
__device__ void store_sum(T* sums, const Problem<T>& in, const Place& at, const Pack<T>& sum) {
  if (at.slot != 0) return;
#pragma unroll
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) sums[(at.row * in.chunks + at.chunk) * in.width + at.column + c] = sum.of[c];
  }
}
/// The same for the sum over a chunk's runs. All of the block must call it.
template <class T>
__device__ void store_sum_of_runs(T* sums, const Problem<T>& in, const Place& at, const Pack<T>& sum) {
  store_sum(sums, in, at, reduce_runs(sum, in, [](Pack<T> x, const Pack<T>& y) {
              add_to(x, T{1}, y);
              return x;
            }));
}

/// Σ factor(chunk)·sums[row, chunk, d] for thread d < D of a block, 0 for the others; all of the block must call it.
template <class T, class F>
__device__ double join(const T* sums, const Problem<T>& in, int64_t row, F factor) {
  __shared__ double of_slice[kThreads];
  const int width = static_cast<int>(in.width), thread = static_cast<int>(threadIdx.x);
  const int slices = kThreads / width, slice = thread / width;
  double sum = 0;
  if (slice < slices) {
#pragma unroll 16
    for (int64_t chunk = slice; chunk < in.chunks; chunk += slices) {
      sum += factor(chunk) * static_cast<double>(sums[(row * in.chunks + chunk) * width + thread % width]);
    }
  }
  of_slice[thread] = sum;
  __syncthreads();
  for (int s = 1; s < slices && thread < width; ++s) sum += of_slice[s * width + thread];
  __syncthreads();  // before the next call writes there
  return thread < width ? sum : 0;
}
template <class T>
__device__ double join(const T* sums, const Problem<T>& in, int64_t row) {
  return join(sums, in, row, [](int64_t) { return 1.0; });
}

}  // namespace linnet::cuda::additive
