#pragma once

#include <type_traits>

#include <linnet/cuda/attention/mma_products.cuh>
#include <linnet/cuda/attention/weights.cuh>

/// Quadratic attention of narrow heads with bfloat16 factors, by tensor cores. It computes the sums of tiles.cuh in
/// registers. A block has four warps. A warp computes 16 rows of the result, and no other warp needs their scores.
/// The scores are the sums of one product and, after packing, the left factors of the next (mma_products.cuh). Shared
/// memory holds only the rows by which all warps multiply.

namespace linnet::cuda {

/// The scores of a warp's 16 queries with all keys of a tile; see ThreadTileScores.
struct QueryScores {
  static constexpr int kQueries = 2, kKeys = kMmaTile / 4, kLanes = 4, kWarpKeys = kMmaTile;
  WarpSums<kMmaTile>& sums;

  __device__ static int warp_query() { return first_row_of_warp(); }
  __device__ static int warp_key() { return 0; }
  __device__ static int query(int q) { return WarpSums<kMmaTile>::row(q); }
  __device__ static int key(int k) { return WarpSums<kMmaTile>::column(k); }
  __device__ float& at(int q, int k) const { return sums.of[q][k]; }
};

/// The number of queries of a tile when a warp's rows are keys. It is half a tile, so that scores, their gradients
/// and two sums fit into registers.
constexpr int kQueryRows = 32;

/// The scores of a warp's 16 keys with all queries of a tile.
struct KeyScores {
  static constexpr int kQueries = kQueryRows / 4, kKeys = 2, kWarpKeys = 16;
  WarpSums<kQueryRows>& sums;

  __device__ static int warp_query() { return 0; }
  __device__ static int warp_key() { return first_row_of_warp(); }
  __device__ static int query(int q) { return WarpSums<kQueryRows>::column(q); }
  __device__ static int key(int k) { return WarpSums<kQueryRows>::row(k); }
  __device__ float& at(int q, int k) const { return sums.of[k][q]; }
};

/// Whether the running code was compiled for tensor cores with bfloat16 (sm_80 on).
bool has_mma();

/// If these kernels support queries [B, H, N, D] of this dtype and width, calls `f` with the kernels' width and a
/// zero of the elements' type, and returns true.
template <class F>
bool dispatch_mma(const View& q, F&& f) {
  const int64_t width = q.shape[3];
  const bool rounds = q.dtype == DType::float32 && precision() == Precision::bfloat16;
  if (!(rounds || q.dtype == DType::bfloat16) || width > 64 || !has_mma()) return false;
  const auto with_elements = [&](auto zero) {
    width <= 32 ? f(std::integral_constant<int, 32>(), zero) : f(std::integral_constant<int, 64>(), zero);
  };
  rounds ? with_elements(float{}) : with_elements(BFloat16{});
  return true;
}

// ---- Kernels ----

/// The tiles of a launch: `tiles` tiles from `first` on, for each of `heads` heads from `head` on.
struct HeadTiles {
  int64_t head, heads, first, tiles;

  __host__ __device__ int64_t count() const { return heads * tiles; }
  /// The number of the launch's tile `index` among all tiles. Each head has `of_head` tiles.
  __device__ int64_t number(int64_t index, int64_t of_head) const {
    return (head + index / tiles) * of_head + first + index % tiles;
  }
};

/// The case without inter-chunk states: the kernels compute the weights of all tokens. fastmax/inter_chunk.cuh has
/// the other case.
struct NoInterChunk {
  static constexpr bool kAny = false;

  template <class In>
  __device__ int64_t first_key(const In& in, int64_t head, int64_t first) const {
    return in.visible_to_tile(head, first).begin;
  }
  template <class In>
  __device__ int64_t end_query(const In&, const KeyRange& seen_by, int64_t) const {
    return seen_by.end;
  }
};

/// sum += x, for the rows of x from `first` on.
template <class E, int kWidth>
__device__ void add_rows(const HeadMatrix<E>& x, int64_t first, WarpSums<kWidth>& sum) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t i = first + sum.row(r);
    if (i >= x.count) continue;
#pragma unroll
    for (int c = 0; c < kWidth / 4; ++c) {
      if (sum.column(c) < x.width) sum.of[r][c] += static_cast<float>(x.data[i * x.stride + sum.column(c)]);
    }
  }
}

/// Starts the sums with those over other keys, which are the present outputs; these are already divided by their
/// denominators.
template <class E, int kWidth>
__device__ void resume(const SparseInputs<float, E>& in, const QuadraticTask<float, E>& task, const HeadMatrix<E>& o,
                       WarpSums<kWidth>& sum, Totals<float, 2>& totals) {
  if (!in.accumulate) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t i = task.first + sum.row(r);
    if (i < in.queries) totals.resume(r, in.earlier_denominators[task.head * in.queries + i]);
  }
  add_rows(o, task.first, sum);
}

/// The number of blocks that fit on a multiprocessor. The compiler limits the registers of a thread for this number.
/// While some warps wait, others compute. With one block more, kernels for 32 columns would spill 130 to 260 bytes.
template <int kWidth, bool kSparse>
constexpr int kForwardBlocks = kWidth == 32 ? (kSparse ? 3 : 4) : (kSparse ? 2 : 3);
template <int kWidth, bool kSparse>
constexpr int kBackwardBlocks = kWidth == 32 ? (kSparse ? 3 : 4) : 2;

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), with s_ij = scale · q_i·k_j and f = exp for softmax.
template <int kWidth, class E, class OtherChunks, class In = QuadraticInputs<float, E>>
__global__ void __launch_bounds__(kMmaThreads, kForwardBlocks<kWidth, In::kSparse>)
    attend_mma(In in, HeadsView<E> o, float* denominator, HeadTiles tiles, OtherChunks other_chunks) {
  __shared__ RowTile<kWidth> q_tile;
  __shared__ RowTile<kWidth> k_tiles[2];
  __shared__ RowTile<kWidth> v_tiles[2];
  for (int64_t index = tiles.count() - 1 - blockIdx.x; index >= 0; index -= gridDim.x) {  // longest first if causal
    const QuadraticTask<float, E> task(in, tiles.number(index, in.query_tiles()), in.query_tiles(), 1);
    const HeadMatrix<const E> k = task.keys(in, in.k), v = task.keys(in, in.v);
    __syncthreads();  // the previous tiles have been used
    load_rows(q_tile, task.queries(in, in.q), task.first);
    WarpSums<kWidth> sum;
    Totals<float, 2> totals;
    if constexpr (OtherChunks::kAny) {
      wait_for_rows();
      other_chunks.add_values(in, task, q_tile, sum, totals.total);
    }
    if constexpr (In::kSparse) {
      resume(in, task, task.rows(o, in.queries, in.width), sum, totals);
    }
    const int64_t seen_by_any = in.visible_to_tile(task.head, task.first).end;
    const auto load = [&](int64_t key, int buffer) {
      load_rows(k_tiles[buffer], k, key);
      load_rows(v_tiles[buffer], v, key);
    };
    for_each_step<2, kMmaTile>(
        other_chunks.first_key(in, task.head, task.first), seen_by_any, load, [&](int64_t key, int buffer) {
          RowTile<kWidth>& v_tile = v_tiles[buffer];
          WarpSums<kMmaTile> weights = products(LeftRows<kWidth>(q_tile), k_tiles[buffer]);
          const TilePosition tile{task.head, task.first, key,
                                  in.all_see(task.head, task.first, kMmaTile, key, kMmaTile)};
          weigh(in, k, tile, QueryScores{weights}, totals);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            if (totals.rescale[r] == 1) continue;  // the maximum has not changed
#pragma unroll
            for (float& x : sum.of[r]) x *= totals.rescale[r];
          }
          if (!tile.whole) {  // an infinity in a later key must not reach the query
            add_infinities(sum, weights, v_tile,
                           [&](int r, int j) { return in.sees(task.head, task.first + r, key + j); });
          }
          add_product(sum, weights, v_tile);
        });
    const float inverse[] = {totals.inverse(0), totals.inverse(1)};  // [FAST eq.12] [Vaswani eq.1]
    store_rows(task.rows(o, in.queries, in.width), task.first, sum,
               [&](int r, float x, int64_t) { return x * inverse[r]; });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t i = task.first + sum.row(r);
      if (lane() % 4 == 0 && i < in.queries) denominator[task.head * in.queries + i] = totals.denominator(in, r);
    }
  }
}

/// dk_j = sum_i ∂s_ij q_i and dv_j = sum_i p_ij d_o_i, for a tile of keys.
template <int kWidth, class E, class OtherChunks, class In = QuadraticInputs<float, E>>
__global__ void __launch_bounds__(kMmaThreads, kBackwardBlocks<kWidth, In::kSparse>)
    attend_backward_keys_mma(In in, QuadraticCotangents<float, E> from, HeadsView<E> dk, HeadsView<E> dv,
                             HeadTiles tiles, OtherChunks other_chunks) {
  __shared__ RowTile<kWidth> k_tile;
  __shared__ RowTile<kWidth> v_tile;
  __shared__ RowTile<kWidth, kQueryRows> q_tiles[2];
  __shared__ RowTile<kWidth, kQueryRows> g_tiles[2];
  __shared__ QueryFactors<float> factors[2][kQueryRows];
  for (int64_t index = blockIdx.x; index < tiles.count(); index += gridDim.x) {
    const QuadraticTask<float, E> task(in, tiles.number(index, in.key_tiles()), in.key_tiles(), 1);
    const HeadMatrix<const E> q = task.queries(in, in.q), g = task.queries(in, from.d_o), k = task.keys(in, in.k);
    __syncthreads();  // the previous tiles have been used
    load_rows(k_tile, k, task.first);
    load_rows(v_tile, task.keys(in, in.v), task.first);
    WarpSums<kWidth> dk_sum, dv_sum;
    if constexpr (OtherChunks::kAny) {
      wait_for_rows();
      float total[2] = {};
      other_chunks.add_values(in, task, k_tile, dv_sum, total);
      other_chunks.add_gradients(in, task, k_tile, v_tile, {1, 1}, dk_sum);
    }
    const KeyRange seen_by = in.queries_of(task.head, task.first, kMmaTile);
    const int64_t end = other_chunks.end_query(in, seen_by, task.first);
    const auto load = [&](int64_t query, int buffer) {
      load_rows(q_tiles[buffer], q, query);
      load_rows(g_tiles[buffer], g, query);
      if (threadIdx.x < kQueryRows) {
        factors[buffer][threadIdx.x] = query_factors(in, from, task.head, query + threadIdx.x);
      }
    };
    for_each_step<2, kQueryRows>(seen_by.begin / kQueryRows * kQueryRows, end, load, [&](int64_t query, int buffer) {
      RowTile<kWidth, kQueryRows>&q_tile = q_tiles[buffer], &g_tile = g_tiles[buffer];
      WarpSums<kQueryRows> weights = products(LeftRows<kWidth>(k_tile), q_tile);
      WarpSums<kQueryRows> gradients = products(LeftRows<kWidth>(v_tile), g_tile);
      const bool whole =
          query + kQueryRows <= in.queries && in.all_see(task.head, query, kQueryRows, task.first, kMmaTile);
      const TilePosition tile{task.head, query, task.first, whole};
      score_gradients(in, k, tile, KeyScores{weights}, KeyScores{gradients},
                      [&](int i) { return factors[buffer][KeyScores::query(i)]; });
      if (!tile.whole) {
        const auto sees = [&](int r, int i) { return in.sees(task.head, query + i, task.first + r); };
        add_infinities(dv_sum, weights, g_tile, sees);
        add_infinities(dk_sum, gradients, q_tile, sees);
      }
      add_product(dv_sum, weights, g_tile);  // gradient of [FAST eq.12] [Vaswani eq.1]
      add_product(dk_sum, gradients, q_tile);
    });
    const auto store = [&](const HeadMatrix<E>& result, WarpSums<kWidth>& sum) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (k.has(task.first + sum.row(r))) continue;
#pragma unroll
        for (float& x : sum.of[r]) x = 0;
      }
      if constexpr (In::kSparse) {
        if (in.accumulate_keys) add_rows(result, task.first, sum);
      }
      store_rows(result, task.first, sum, [](int, float x, int64_t) { return x; });
    };
    store(task.rows(dk, in.keys, in.width), dk_sum);
    store(task.rows(dv, in.keys, in.width), dv_sum);
  }
}

/// dq_i = sum_j ∂s_ij k_j, for a tile of queries.
template <int kWidth, class E, class OtherChunks, class In = QuadraticInputs<float, E>>
__global__ void __launch_bounds__(kMmaThreads, kBackwardBlocks<kWidth, In::kSparse>)
    attend_backward_queries_mma(In in, QuadraticCotangents<float, E> from, HeadsView<E> dq, HeadTiles tiles,
                                OtherChunks other_chunks) {
  constexpr int kBuffers = kWidth == 32 ? 2 : 1;  // more buffers would take more than 48 KB
  __shared__ RowTile<kWidth> q_tile;
  __shared__ RowTile<kWidth> g_tile;
  __shared__ RowTile<kWidth> k_tiles[kBuffers];
  __shared__ RowTile<kWidth> v_tiles[kBuffers];
  for (int64_t index = tiles.count() - 1 - blockIdx.x; index >= 0; index -= gridDim.x) {  // longest first if causal
    const QuadraticTask<float, E> task(in, tiles.number(index, in.query_tiles()), in.query_tiles(), 1);
    const HeadMatrix<const E> k = task.keys(in, in.k), v = task.keys(in, in.v);
    __syncthreads();  // the previous tiles have been used
    load_rows(q_tile, task.queries(in, in.q), task.first);
    load_rows(g_tile, task.queries(in, from.d_o), task.first);
    QueryFactors<float> factors[2];
#pragma unroll
    for (int q = 0; q < 2; ++q) factors[q] = query_factors(in, from, task.head, task.first + QueryScores::query(q));
    WarpSums<kWidth> sum;
    if constexpr (OtherChunks::kAny) {
      wait_for_rows();
      other_chunks.add_query_gradients(in, task, q_tile, g_tile, factors, sum);
    }
    const int64_t seen_by_any = in.visible_to_tile(task.head, task.first).end;
    const auto load = [&](int64_t key, int buffer) {
      load_rows(k_tiles[buffer], k, key);
      load_rows(v_tiles[buffer], v, key);
    };
    for_each_step<kBuffers, kMmaTile>(
        other_chunks.first_key(in, task.head, task.first), seen_by_any, load, [&](int64_t key, int buffer) {
          RowTile<kWidth>& k_tile = k_tiles[buffer];
          WarpSums<kMmaTile> weights = products(LeftRows<kWidth>(q_tile), k_tile);
          WarpSums<kMmaTile> gradients = products(LeftRows<kWidth>(g_tile), v_tiles[buffer]);
          const TilePosition tile{task.head, task.first, key,
                                  in.all_see(task.head, task.first, kMmaTile, key, kMmaTile)};
          score_gradients(in, k, tile, QueryScores{weights}, QueryScores{gradients},
                          [&](int i) { return factors[i]; });
          if (!tile.whole) {
            add_infinities(sum, gradients, k_tile,
                           [&](int r, int j) { return in.sees(task.head, task.first + r, key + j); });
          }
          add_product(sum, gradients, k_tile);
        });
    const HeadMatrix<E> result = task.rows(dq, in.queries, in.width);
    if constexpr (In::kSparse) {
      if (in.accumulate) add_rows(result, task.first, sum);
    }
    store_rows(result, task.first, sum, [](int, float x, int64_t) { return x; });
  }
}

}  // namespace linnet::cuda
