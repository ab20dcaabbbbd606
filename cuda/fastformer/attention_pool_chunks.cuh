#pragma once

#include <algorithm>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>

/// The chunks of attention pooling: the division of work, sums over the tokens of a chunk, and the scan over the
/// chunks of a head.

namespace linnet::cuda {

constexpr int kChunk = kWarp;  // the number of tokens of a chunk: one for each lane
constexpr int kBatch = 8;      // the number of tokens or chunks whose loads a thread issues together
using Warp = ThreadGroup<kWarp>;

/// The arguments of all kernels.
template <class T>
struct PoolInputs {
  HeadsView<const T> scores, x;
  PaddingMask padding_mask;
  int64_t heads, tokens, width, chunks, tasks;  ///< a task is one chunk of one head of one sequence
  bool causal;

  PoolInputs(const View& scores_view, const View& x_view, const View* mask_view, bool causal_)
      : scores(scores_view),
        x(x_view),
        padding_mask(mask_view),
        heads(x_view.shape[1]),
        tokens(x_view.shape[2]),
        width(x_view.shape[3]),
        chunks(std::max(ceil_div(tokens, kChunk), int64_t{1})),  // without tokens 1, to store zeros
        tasks(x_view.shape[0] * heads * chunks),
        causal(causal_) {}

  /// Whether the sums include token `i`. They do not if it is padding or its score is −∞.
  __device__ bool counts(int64_t b, int64_t i, T score) const {
    return score != -infinity<T>() && padding_mask.has(b, i);
  }
};

/// One chunk of one head: the tokens [first, last).
struct ChunkTask {
  int64_t index, b, h, chunk, first, last;

  template <class T>
  __device__ ChunkTask(const PoolInputs<T>& in, int64_t index_)
      : index(index_),
        b(index / in.chunks / in.heads),
        h(index / in.chunks % in.heads),
        chunk(index % in.chunks),
        first(chunk * kChunk),
        last(min(first + kChunk, in.tokens)) {}
};

/// The lanes of the warp for which `own` is true: bit i is for lane i.
__device__ inline uint32_t lanes_where(bool own) { return Warp::reduce(uint32_t{own} << Warp::lane(), Plus()); }

/// y = Σ w_i x_i over the tokens i of a chunk whose bits are set in `counted`, by a warp whose lane i holds w_i.
template <class T>
__device__ void sum_rows(T* y, const HeadsView<const T>& x, const ChunkTask& task, int64_t width, T weight,
                         uint32_t counted) {
  int lanes = kBatch;  // the number of lanes on neighbouring columns; other groups of lanes take other tokens
  while (lanes < kWarp && lanes < width) lanes *= 2;
  const int group = Warp::lane() / lanes, groups = kWarp / lanes;
  for (int64_t d = Warp::lane() % lanes; d - Warp::lane() % lanes < width; d += lanes) {
    const T* column = x.at(task.b, task.h, task.first) + d;
    T sum = 0;
    for (int first = group; first < kChunk; first += kBatch * groups) {
      T w[kBatch], of[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int i = first + j * groups;
        w[j] = value_of(weight, i);
        of[j] = (counted >> i & 1) != 0 && d < width ? column[i * x.row_stride] : T{0};
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) sum += w[j] * of[j];
    }
    for (int distance = lanes; distance < kWarp; distance *= 2) sum += shuffle(sum, distance);
    if (group == 0 && d < width) y[d] = sum;
  }
}

// ---- The scan over the chunks ----

/// How threads divide the scan: a block has a few columns of heads, and divides the chunks of each into splits.
struct Scan {
  int64_t columns, items, chunks;  ///< columns of a head; columns of all heads; chunks of a head
  int splits = 1;
  int64_t length;  ///< chunks of a split

  Scan(int64_t heads, int64_t columns_, int64_t chunks_)
      : columns(columns_), items(heads * columns), chunks(chunks_) {
    while (splits < kMaxSplits && splits * splits < chunks) splits *= 2;  // about as many splits as chunks in each
    length = ceil_div(chunks, splits);
  }
  int64_t blocks() const { return ceil_div(items, kThreads / splits); }

 private:
  static constexpr int kMaxSplits = 32;  // more would leave fewer than eight neighbouring threads on columns
};

/// Computes for each column of each head an exclusive scan over the chunks in the chain's order, chain.pass(…,
/// before), or only the total, chain.finish(…, total). A thread merges the chunks of its split, then the splits
/// before its own, and then loops over its chunks again. Latency bounds it.
template <class Chain>
__global__ void scan_chunks(Chain chain, Scan scan) {
  using State = typename Chain::State;
  __shared__ State of_thread[kThreads];
  const int columns = kThreads / scan.splits, thread = static_cast<int>(threadIdx.x);
  const int column = thread % columns, split = thread / columns;
  for (int64_t first = int64_t{blockIdx.x} * columns; first < scan.items; first += int64_t{gridDim.x} * columns) {
    const int64_t item = first + column, head = item / scan.columns, d = item % scan.columns;
    const int64_t begin = split * scan.length;
    const int64_t end = item < scan.items ? min(begin + scan.length, scan.chunks) : 0;
    const auto for_each_chunk = [&](State& state, const auto& pass) {
      for (int64_t position = begin; position < end; position += kBatch) {
        State own[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          own[j] = position + j < end ? chain.load(head, position + j, d) : Chain::none();
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          if (position + j < end) pass(position + j, state);
          state = Chain::merged(state, own[j]);
        }
      }
    };
    State state = Chain::none();
    for_each_chunk(state, [](int64_t, const State&) {});
    of_thread[thread] = state;
    __syncthreads();
    state = Chain::none();
    for (int s = 0; s < (chain.finishes() ? scan.splits : split); ++s) {
      state = Chain::merged(state, of_thread[s * columns + column]);
    }
    __syncthreads();  // before the next columns overwrite these
    if (chain.finishes()) {
      if (split == 0 && item < scan.items) chain.finish(head, d, state);
    } else {
      for_each_chunk(state, [&](int64_t position, const State& before) { chain.pass(head, position, d, before); });
    }
  }
}

}  // namespace linnet::cuda
