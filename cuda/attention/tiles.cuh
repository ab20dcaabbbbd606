#pragma once

#include <linnet/cuda/attention/weights.cuh>

/// Quadratic attention for heads of any width, by the products of tile.cuh. A block computes kTile rows and kTile
/// columns of the result. It loops over the other side tile by tile.

namespace linnet::cuda {

/// Writes this thread's tile of a result whose block's tile begins at row `first` and column `column`.
template <class T, class E, class Value>
__device__ void store_thread_tile(const HeadMatrix<E>& x, int64_t first, int64_t column, Value value) {
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) {
      const int64_t i = first + thread_row<T>() + r, d = column + thread_column<T>() + c;
      if (i < x.count && d < x.width) x.data[i * x.stride + d] = value(r, c, i);
    }
  }
}

/// Starts the sums with those over other keys, which are the present outputs; these are already divided by their
/// denominators.
template <class T, class E>
__device__ void resume(const SparseInputs<T, E>& in, const QuadraticTask<T, E>& task, const HeadMatrix<E>& o,
                       ThreadTile<T>& sum, Totals<T, kThreadTile<T>>& totals) {
  if (!in.accumulate) return;
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
    const int64_t i = task.first + thread_row<T>() + r;
    if (i >= in.queries) continue;
    totals.resume(r, in.earlier_denominators[task.head * in.queries + i]);
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) {
      const int64_t d = task.column + thread_column<T>() + c;
      if (d < in.width) sum.of[r][c] = static_cast<T>(o.data[i * o.stride + d]);
    }
  }
}

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij), with s_ij = scale · q_i·k_j and f = exp for softmax.
template <class T, class S, class E, class In>
__global__ void __launch_bounds__(kThreads)
    attend(In in, HeadsView<E> o, T* denominator, int64_t tiles, int64_t column_tiles) {
  __shared__ SharedTiles<S> shared;
  const int64_t count = in.batch * in.heads * tiles * column_tiles;
  for (int64_t index = count - 1 - blockIdx.x; index >= 0; index -= gridDim.x) {  // longest first if causal
    const QuadraticTask<T, E> task(in, index, tiles, column_tiles);
    const HeadMatrix<const E> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    ThreadTile<T> sum;
    Totals<T, kThreadTile<T>> totals;
    if constexpr (In::kSparse) resume(in, task, task.rows(o, in.queries, in.width), sum, totals);
    const KeyRange seen = in.visible_to_tile(task.head, task.first);
    for (int64_t key = seen.begin; key < seen.end; key += kTile<T>) {
      ThreadTile<T> weights = products_of_rows<T>(shared, q, task.first, k, key);
      const TilePosition tile{task.head, task.first, key, in.all_see(task.head, task.first, kTile<T>, key, kTile<T>)};
      weigh(in, k, tile, ThreadTileScores<T>{weights}, totals);
#pragma unroll
      for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
        for (int c = 0; c < kThreadTile<T>; ++c) {
          sum.of[r][c] *= totals.rescale[r];
          shared.a[thread_column<T>() + c][thread_row<T>() + r] = weights.of[r][c];
        }
      }
      load_tile(shared.b, v, key, task.column);
      __syncthreads();
      if (tile.whole) {
        add_product(sum, shared.a, shared.b, kTile<T>);
      } else {  // a key that a query does not see must not reach it, even if the key is infinite
        add_product(sum, shared.a, shared.b, kTile<T>,
                    [&](int j, int r) { return in.sees(task.head, task.first + thread_row<T>() + r, key + j); });
      }
      __syncthreads();  // before the next tile of keys overwrites this one
    }
    T inverse[kThreadTile<T>];
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) inverse[r] = totals.inverse(r);  // [FAST eq.12] [Vaswani eq.1]
    store_thread_tile<T>(task.rows(o, in.queries, in.width), task.first, task.column,
                         [&](int r, int c, int64_t) { return sum.of[r][c] * inverse[r]; });
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
      const int64_t i = task.first + thread_row<T>() + r;
      if (task.column > 0 || thread_column<T>() > 0 || i >= in.queries) continue;
      denominator[task.head * in.queries + i] = totals.denominator(in, r);
    }
  }
}

/// dk_j = sum_i ∂s_ij q_i and dv_j = sum_i p_ij d_o_i, for a tile of keys.
template <class T, class S, class E, class In>
__global__ void __launch_bounds__(kThreads)
    attend_backward_keys(In in, QuadraticCotangents<T, E> from, HeadsView<E> dk, HeadsView<E> dv, int64_t tiles,
                         int64_t column_tiles) {
  __shared__ SharedTiles<S> shared;
  for (int64_t index = blockIdx.x; index < in.batch * in.heads * tiles * column_tiles; index += gridDim.x) {
    const QuadraticTask<T, E> task(in, index, tiles, column_tiles);
    const HeadMatrix<const E> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    const HeadMatrix<const E> g = task.queries(in, from.d_o);
    ThreadTile<T> dk_sum, dv_sum;
    const KeyRange seen_by = in.queries_of(task.head, task.first, kTile<T>);
    for (int64_t query = seen_by.begin / kTile<T> * kTile<T>; query < seen_by.end; query += kTile<T>) {
      ThreadTile<T> weights = products_of_rows<T>(shared, q, query, k, task.first);
      ThreadTile<T> gradients = products_of_rows<T>(shared, g, query, v, task.first);
      const auto of_query = [&](int i) {
        return query_factors(in, from, task.head, query + ThreadTileScores<T>::query(i));
      };
      const bool whole =
          query + kTile<T> <= in.queries && in.all_see(task.head, query, kTile<T>, task.first, kTile<T>);
      const TilePosition tile{task.head, query, task.first, whole};
      score_gradients(in, k, tile, ThreadTileScores<T>{weights}, ThreadTileScores<T>{gradients}, of_query);
      const auto add = [&](ThreadTile<T>& sum, const ThreadTile<T>& factors, const HeadMatrix<const E>& x) {
#pragma unroll
        for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
          for (int c = 0; c < kThreadTile<T>; ++c)
            shared.a[thread_row<T>() + r][thread_column<T>() + c] = factors.of[r][c];
        }
        load_tile(shared.b, x, query, task.column);
        __syncthreads();
        if (tile.whole) {
          add_product(sum, shared.a, shared.b, kTile<T>);
        } else {
          add_product(sum, shared.a, shared.b, kTile<T>,
                      [&](int i, int r) { return in.sees(task.head, query + i, task.first + thread_row<T>() + r); });
        }
        __syncthreads();  // before the tiles are overwritten
      };
      add(dv_sum, weights, g);  // gradient of [FAST eq.12] [Vaswani eq.1]
      add(dk_sum, gradients, q);
    }
    const auto store = [&](const HeadMatrix<E>& result, const ThreadTile<T>& sum) {
      store_thread_tile<T>(result, task.first, task.column, [&](int r, int c, int64_t j) {
        const T gradient = k.has(j) ? sum.of[r][c] : T{0};
        if constexpr (In::kSparse) {
          const int64_t d = task.column + thread_column<T>() + c;
          if (in.accumulate_keys) return gradient + static_cast<T>(result.data[j * result.stride + d]);
        }
        return gradient;
      });
    };
    store(task.rows(dk, in.keys, in.width), dk_sum);
    store(task.rows(dv, in.keys, in.width), dv_sum);
  }
}

/// dq_i = sum_j ∂s_ij k_j, for a tile of queries.
template <class T, class S, class E, class In>
__global__ void __launch_bounds__(kThreads)
    attend_backward_queries(In in, QuadraticCotangents<T, E> from, HeadsView<E> dq, int64_t tiles,
                            int64_t column_tiles) {
  __shared__ SharedTiles<S> shared;
  const int64_t count = in.batch * in.heads * tiles * column_tiles;
  for (int64_t index = count - 1 - blockIdx.x; index >= 0; index -= gridDim.x) {  // longest first if causal
    const QuadraticTask<T, E> task(in, index, tiles, column_tiles);
    const HeadMatrix<const E> q = task.queries(in, in.q), k = task.keys(in, in.k), v = task.keys(in, in.v);
    const HeadMatrix<const E> g = task.queries(in, from.d_o);
    ThreadTile<T> sum;
    const KeyRange seen = in.visible_to_tile(task.head, task.first);
    for (int64_t key = seen.begin; key < seen.end; key += kTile<T>) {
      ThreadTile<T> weights = products_of_rows<T>(shared, q, task.first, k, key);
      ThreadTile<T> gradients = products_of_rows<T>(shared, g, task.first, v, key);
      const auto of_query = [&](int i) {
        return query_factors(in, from, task.head, task.first + ThreadTileScores<T>::query(i));
      };
      const TilePosition tile{task.head, task.first, key, in.all_see(task.head, task.first, kTile<T>, key, kTile<T>)};
      score_gradients(in, k, tile, ThreadTileScores<T>{weights}, ThreadTileScores<T>{gradients}, of_query);
#pragma unroll
      for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
        for (int c = 0; c < kThreadTile<T>; ++c) {
          shared.a[thread_column<T>() + c][thread_row<T>() + r] = gradients.of[r][c];
        }
      }
      load_tile(shared.b, k, key, task.column);
      __syncthreads();
      if (tile.whole) {
        add_product(sum, shared.a, shared.b, kTile<T>);
      } else {
        add_product(sum, shared.a, shared.b, kTile<T>,
                    [&](int j, int r) { return in.sees(task.head, task.first + thread_row<T>() + r, key + j); });
      }
      __syncthreads();  // before the next tile of keys overwrites this one
    }
    const HeadMatrix<E> result = task.rows(dq, in.queries, in.width);
    store_thread_tile<T>(result, task.first, task.column, [&](int r, int c, int64_t i) {
      if constexpr (In::kSparse) {
        const int64_t d = task.column + thread_column<T>() + c;
        if (in.accumulate) return sum.of[r][c] + static_cast<T>(result.data[i * result.stride + d]);
      }
      return sum.of[r][c];
    });
  }
}

}  // namespace linnet::cuda
