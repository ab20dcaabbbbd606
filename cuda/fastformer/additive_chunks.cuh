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

/// The division of work of additive_attention.cu, and code that its kernels share. A block takes a chunk of
/// consecutive tokens of some heads. A thread group of a few lanes takes one head and every block_tokens-th token of
/// the chunk; each lane has a pack of neighbouring columns. The next lanes take the next heads, which are neighbours
/// in memory, or the next tokens. Sums are added in three steps: each thread sums over its tokens, in registers; a
/// block sums over its thread groups; and another kernel sums over the chunks of a head. Tensors of tokens have
/// elements of type E. All else has type T: float for bfloat16, otherwise E.

namespace linnet::cuda::additive {

constexpr int kGroupTokens = 32;  ///< the number of tokens of a thread group in a chunk
constexpr int kBatch = 4;         ///< the number of these tokens whose loads are issued together
static_assert(kGroupTokens % kBatch == 0, "batches do not reach into the next chunk");

/// Softmax-weighted means over the tokens, for all B·H heads: the means [B·H, D], and for each head the largest score
/// m, z = Σ e^(s − m), and the sum of the weights that dropout keeps, which is 1 without dropout.
template <class T>
struct PooledMean {
  T *mean, *maximum, *total, *kept;

  static int64_t size(int64_t heads, int64_t width) { return heads * (width + 3); }
  PooledMean(T* memory, int64_t heads, int64_t width)
      : mean(memory), maximum(mean + heads * width), total(maximum + heads), kept(total + heads) {}
};

/// The parameters of all kernels, and the division of the work among threads, which depends on sizes alone.
template <class T>
struct WholeAdditiveParams {
  PooledMean<T> queries, keys;  ///< the means of the two stages, with the weights α and β
  PaddingMask padding_mask;
  int64_t rows, heads, tokens, width;  ///< a row is one head of one sequence
  T scale, kept_factor;
  bool adds, drops;
  uint64_t threshold;

  int lanes;  ///< the number of lanes of a thread group, which takes one head: a power of two
  int block_heads,
      block_tokens;  ///< the heads of a block, and the tokens that it takes at a time: heads · tokens thread groups
  int64_t head_blocks, chunks;  ///< a chunk is kGroupTokens · block_tokens tokens
  int64_t tasks;                ///< a task is one chunk of the heads of a block

  WholeAdditiveParams(const AdditiveAttentionInputs& given, const View& pools)
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
    chunks = std::max<int64_t>(ceil_div(tokens, kGroupTokens * block_tokens), 1);  // without tokens 1, to store zeros
    tasks = given.q.shape[0] * head_blocks * chunks;
  }

  /// Dropout's factor of a token's weight: 0 or 1 / (1 − rate); 1 without dropout.
  __device__ T factor(RandomKey dropout_rng, int64_t row, int64_t i) const {
    if (!drops) return 1;
    return random_word(dropout_rng, static_cast<uint64_t>(row * tokens + i)) < threshold ? kept_factor : T{0};
  }
};

/// A thread's part of a task: `columns` columns of head h, from `column` on, and the tokens begin + slot, begin +
/// slot + block_tokens, … of the chunk [begin, end).
struct Place {
  int64_t b, h, row, chunk, begin, end;
  int slot, column, columns;

  template <class T>
  __device__ Place(const WholeAdditiveParams<T>& in, int64_t task) {
    const int group = static_cast<int>(threadIdx.x) / in.lanes;
    chunk = task % in.chunks;
    b = task / in.chunks / in.head_blocks;
    h = task / in.chunks % in.head_blocks * in.block_heads + group % in.block_heads;
    slot = group / in.block_heads;
    begin = chunk * kGroupTokens * in.block_tokens;
    end = min(begin + kGroupTokens * in.block_tokens, in.tokens);
    column = static_cast<int>(threadIdx.x) % in.lanes * kPack;
    columns = static_cast<int>(max(min(in.width - column, int64_t{kPack}), int64_t{0}));
    if (h >= in.heads || slot >= in.block_tokens)
      h = columns = 0;  // this thread has no part, but takes part in shuffles
    row = b * in.heads + h;
  }

  /// This thread's j-th token of the batch that its block takes from `first` on.
  template <class T>
  __device__ int64_t token(const WholeAdditiveParams<T>& in, int64_t first, int j) const {
    return first + slot + j * in.block_tokens;
  }
};

/// One stage: the vectors x_i that it pools, and the vector of its scores s_i = w·x_i/√D. The second stage pools the
/// keys with the scores (w_k ∘ q)·k_i/√D, because w_k·(q ∘ k_i) = (w_k ∘ q)·k_i. With `add`, w_k·q is the same for
/// all tokens and changes no weight, so the scores are w_k·k_i/√D.
template <class T, class E>
struct Stage {
  HeadRows<const E> x;
  const T *w, *factor;  ///< [H, D], and [B·H, D] or null
  int64_t w_stride[2];
  LiveKey dropout_rng;
  PooledMean<T> pool;

  __device__ Pack<T> weight(const WholeAdditiveParams<T>& in, const Place& at) const {
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

/// This thread's columns of its row of x [B·H, D]; 0 beyond the row's end.
template <class T>
__device__ Pack<T> load_vector(const T* x, const WholeAdditiveParams<T>& in, const Place& at) {
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

/// Sums each of several numbers over the lanes of a thread group; each lane gets all sums. All lanes of the warp must
/// call it.
template <class T, int kCount>
__device__ void reduce_head(T (&x)[kCount], int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += shuffle(x[j], distance);
  }
}

/// The global key k = Σ β_i p_i = q ∘ Σ β_i k_i, or with `add` q Σ β_i + Σ β_i k_i.
template <class T>
__device__ T global_key(const WholeAdditiveParams<T>& in, int64_t row, int64_t d) {
  const T q = in.queries.mean[row * in.width + d], mean = in.keys.mean[row * in.width + d];
  return in.adds ? q * in.keys.kept[row] + mean : q * mean;  // [Fastformer eq.6]
}
template <class T>
__device__ Pack<T> global_key(const WholeAdditiveParams<T>& in, const Place& at) {
  Pack<T> y = {};
#pragma unroll
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) y.of[c] = global_key(in, at.row, at.column + c);
  }
  return y;
}

// ---- Batches of tokens ----

/// The tokens of a batch that exist, and those that are not padding; none for a thread without columns.
template <class T>
__device__ void find_existing(bool (&exists)[kBatch], const WholeAdditiveParams<T>& in, const Place& at,
                              int64_t first) {
#pragma unroll
  for (int j = 0; j < kBatch; ++j) exists[j] = at.columns > 0 && at.token(in, first, j) < in.tokens;
}
template <class T>
__device__ void find_kept(bool (&kept)[kBatch], const WholeAdditiveParams<T>& in, const Place& at, int64_t first) {
  find_existing(kept, in, at, first);
#pragma unroll
  for (int j = 0; j < kBatch; ++j) kept[j] = kept[j] && in.padding_mask.has(at.b, at.token(in, first, j));
}

/// This thread's columns of a batch's rows of x. Tokens that are not `wanted` are 0, and are not read.
template <class T, class E>
__device__ void load_batch(Pack<T> (&y)[kBatch], const HeadRows<const E>& x, const WholeAdditiveParams<T>& in,
                           const Place& at, int64_t first, const bool (&wanted)[kBatch]) {
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

// ---- Sums over tokens ----

/// Each chunk's softmax sums, relative to its own largest score m: Σ e^(s − m) x [B·H, chunks, D]; and m, Σ e^(s −
/// m), and the part of it that dropout keeps, [B·H, chunks] each.
template <class T>
struct ChunkPools {
  T *sum, *maximum, *total, *kept;

  static int64_t size(const WholeAdditiveParams<T>& in) { return in.rows * in.chunks * (in.width + 3); }
  ChunkPools(T* memory, const WholeAdditiveParams<T>& in)
      : sum(memory),
        maximum(sum + in.rows * in.chunks * in.width),
        total(maximum + in.rows * in.chunks),
        kept(total + in.rows * in.chunks) {}
};

/// Reduces over the thread groups of one head in a block; the threads of the first group get the result for their
/// columns. All threads of the block must call it.
template <class T, class V, class F>
__device__ V reduce_groups(V value, const WholeAdditiveParams<T>& in, F combine) {
  __shared__ V of_thread[kThreads];
  const int thread = static_cast<int>(threadIdx.x), threads = in.lanes * in.block_heads, slot = thread / threads;
  of_thread[thread] = value;
  for (int left = in.block_tokens; left > 1;) {
    const int half = (left + 1) / 2;
    __syncthreads();
    if (slot + half < left) of_thread[thread] = value = combine(value, of_thread[thread + half * threads]);
    left = half;
  }
  __syncthreads();  // before the next reduction overwrites of_thread
  return value;
}

/// sums[row, chunk, column] = this thread's sum, at the first thread group.
template <class T>
__device__ void store_sum(T* sums, const WholeAdditiveParams<T>& in, const Place& at, const Pack<T>& sum) {
  if (at.slot != 0) return;
#pragma unroll
  for (int c = 0; c < kPack; ++c) {
    if (c < at.columns) sums[(at.row * in.chunks + at.chunk) * in.width + at.column + c] = sum.of[c];
  }
}
/// Adds up the thread groups' sums of a chunk, and stores the result. All threads of the block must call it.
template <class T>
__device__ void store_chunk_sum(T* sums, const WholeAdditiveParams<T>& in, const Place& at, const Pack<T>& sum) {
  store_sum(sums, in, at, reduce_groups(sum, in, [](Pack<T> x, const Pack<T>& y) {
              add_to(x, T{1}, y);
              return x;
            }));
}

/// Σ factor(chunk)·sums[row, chunk, d] over the chunks for thread d < D of a block; 0 for other threads. The chunks
/// are divided into splits, which are summed separately. All threads of the block must call it.
template <class T, class F>
__device__ double sum_over_chunks(const T* sums, const WholeAdditiveParams<T>& in, int64_t row, F factor) {
  __shared__ double of_split[kThreads];
  __shared__ double factors[kThreads];
  const int width = static_cast<int>(in.width), thread = static_cast<int>(threadIdx.x);
  const int splits = kThreads / width, split = thread / width;
  const int64_t step = splits * (kThreads / splits);  // the number of chunks per round: a multiple of the splits
  double sum = 0;
  for (int64_t first = 0; first < in.chunks; first += step) {
    // All factors of a round at once, so that the loads below do not wait for them.
    if (thread < step && first + thread < in.chunks) factors[thread] = factor(first + thread);
    __syncthreads();
    const int count = static_cast<int>(min(in.chunks - first, step));
    const T* from = sums + (row * in.chunks + first) * width + thread % width;
    if (split < splits) {
#pragma unroll 16
      for (int chunk = split; chunk < count; chunk += splits) {
        sum += factors[chunk] * static_cast<double>(from[chunk * width]);
      }
    }
    __syncthreads();  // before the next factors overwrite these
  }
  of_split[thread] = sum;
  __syncthreads();
  for (int s = 1; s < splits && thread < width; ++s) sum += of_split[s * width + thread];
  __syncthreads();  // before the next call overwrites of_split
  return thread < width ? sum : 0;
}
template <class T>
__device__ double sum_over_chunks(const T* sums, const WholeAdditiveParams<T>& in, int64_t row) {
  return sum_over_chunks(sums, in, row, [](int64_t) { return 1.0; });
}

}  // namespace linnet::cuda::additive
