#pragma once

#include <linnet/cuda/attention/scores.cuh>
#include <linnet/cuda/device/head_rows.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/scratch.cuh>

/// From scores to weights and their gradients, for the scores of a tile that one thread holds. All kernels of
/// attention.cu and fastmax_mma.cu use this.

namespace linnet::cuda {

/// The running maximum and denominator of a thread's queries, while it loops over the keys tile by tile.
template <class T, int kQueries>
struct Totals {
  T maximum[kQueries], total[kQueries] = {};
  T rescale[kQueries];  ///< the factor for sums of earlier tiles, e^{m − m'}

  __device__ Totals() {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      maximum[q] = -infinity<T>();
      rescale[q] = 1;
    }
  }
  /// The totals of query q from its stored denominator, for an output that is divided by it.
  __device__ void resume(int q, T denominator) {
    if (denominator == -infinity<T>()) return;  // the query has seen no key so far
    maximum[q] = denominator;
    total[q] = 1;
  }
  /// 1 / g, by which a query's sum is multiplied at the end; 0 if the query sees no key.
  __device__ T inverse(int q) const { return total[q] == 0 ? T{0} : T{1} / total[q]; }
  /// The denominator g that is saved for backward; for softmax log2 g.
  template <class E>
  __device__ T denominator(const QuadraticInputs<T, E>& in, int q) const {
    return in.softmax ? maximum[q] + log2(total[q]) : total[q];
  }
};

/// Turns products q·k into weights in place, and updates each query's maximum and denominator.
///   softmax:     e^(s − m)
///   polynomial:  f(s) = a0 + a1 s + a2 s²
template <class In, class T, class E, class Scores>
__device__ void weigh(const In& in, const HeadMatrix<const E>& k, const TilePosition& tile, Scores s,
                      Totals<T, Scores::kQueries>& totals) {
  const auto seen = seen_of<Scores>(in, k, tile);
  T sum[Scores::kQueries] = {};
  if (in.softmax) {
    T scale = in.binary_scale;  // if positive, one instruction multiplies by it and subtracts the maximum
    if (In::kSparse || scale <= 0) {
      for_each_score<Scores>([&](int q, int c) { s.at(q, c) *= scale; });
      scale = 1;
    }
    if constexpr (In::kSparse) set_self(in, tile, s, in.self_score);
    hide(seen, s, -infinity<T>());
#pragma unroll
    for (int q = 0; q < Scores::kQueries; ++q) {
      T largest = -infinity<T>();  // never NaN, because max ignores NaN
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) largest = max(largest, s.at(q, c));
      largest = reduce_lanes<Scores::kLanes>(largest, [](T a, T b) { return max(a, b); });
      largest = max(totals.maximum[q], largest * scale);
      const T base = largest == -infinity<T>() ? T{0} : largest;
      totals.rescale[q] = weight_exp2(totals.maximum[q] - base);
      totals.maximum[q] = largest;
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        s.at(q, c) = weight_exp2(s.at(q, c) * scale - base);  // [Vaswani eq.1]
        sum[q] += s.at(q, c);
      }
    }
  } else if (!in.drops_tokens()) {
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale;
      s.at(q, c) = in.a0 + score * (in.a1 + score * in.a2);  // [FAST eq.8]
    });
    hide(seen, s, T{0});
    for_each_score<Scores>([&](int q, int c) { sum[q] += s.at(q, c); });
  } else {
    const auto tokens = kept_tokens_of<Scores>(in, tile);
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, rest = score * (in.a1 + score * in.a2);
      const T weight = in.a0 + rest * (tokens.has(q, c) ? in.token_factor : T{0});
      const T summed = in.shared_denominator ? weight : in.a0 + rest;
      sum[q] += seen.has(q, c) ? summed : T{0};
      s.at(q, c) = weight;
    });
    hide(seen, s, T{0});
  }
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) {
    totals.total[q] = totals.total[q] * totals.rescale[q] + reduce_lanes<Scores::kLanes>(sum[q], Plus());
  }
  drop(in, kept_weights_of<Scores>(in, tile), s);
}

/// Further arguments of the backward kernels.
template <class T, class E>
struct QuadraticCotangents {
  HeadsView<const E> d_o, o;
  const T* denominator;
  T* delta;  ///< [B, H, N]: d_o·o
};

/// delta = d_o·o of each row. Memory bounds it.
template <class ThreadGroup, class E, class T>
__global__ void find_deltas(HeadSizes all, HeadRows<const E> d_o, HeadRows<const E> o, T* delta) {
  using Batch = RowBatch<ThreadGroup>;
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    T sum[kRowBatch] = {};
    const auto add = [&](int64_t c) {
      const auto g = batch.template load<T>(d_o, batch.has, c), y = batch.template load<T>(o, batch.has, c);
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) sum[j] += g.of[j].of[k] * y.of[j].of[k];
      }
    };
    add(batch.column());
    batch.for_further_packs(add);
    Batch::template reduce<JoinedIn<E>>(sum);
    for (int j = 0; j < kRowBatch; ++j) {
      if (ThreadGroup::lane() == 0 && batch.has[j]) delta[batch.row + j * ThreadGroup::rows] = sum[j];
    }
  }
}

/// The cotangents, with `delta` filled by find_deltas.
template <class T, class E>
QuadraticCotangents<T, E> with_deltas(const QuadraticInputs<T, E>&, const View& d_o, const View& o,
                                      const View& denominator, const Scratch<T>& delta) {
  const HeadSizes all(o);
  for_row_group(all.width, [&](auto group) {
    using G = decltype(group);
    launch(find_deltas<G, E, T>, RowBatch<G>::tasks(all), kThreads, all, HeadRows<const E>(d_o), HeadRows<const E>(o),
           delta.data());
  });
  return {HeadsView<const E>(d_o), HeadsView<const E>(o), data<const T>(denominator), delta.data()};
}

/// A query's factors in the gradients of its scores: log2 g for softmax (∞ for g = 0) and otherwise 1 / g (0 for
/// g = 0), and delta. Both are 0 for a query beyond the last.
template <class T>
struct alignas(2 * sizeof(T)) QueryFactors {
  T log_or_inverse, delta;
};
template <class T, class E>
__device__ QueryFactors<T> query_factors(const QuadraticInputs<T, E>& in, const QuadraticCotangents<T, E>& from,
                                         int64_t head, int64_t i) {
  if (i >= in.queries) return {};
  const T g = from.denominator[head * in.queries + i], delta = from.delta[head * in.queries + i];
  if (in.softmax) return {g == -infinity<T>() ? infinity<T>() : g, delta};  // no weights: 2^(s − ∞) = 0
  if (g == 0) return {};
  return {T{1} / g, delta};
}

/// Turns the products s = q·k into weights p (with dropout), and the products ds = d_o·v into the gradients of q·k,
/// both in place. `factors(q)` are the factors of query q.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
/// Dropout of whole tokens multiplies d_o·v_j by the pair's factor c_j. It also multiplies delta if the denominator
/// shares the dropout.
template <class In, class E, class Scores, class Factors>
__device__ void score_gradients(const In& in, const HeadMatrix<const E>& k, const TilePosition& tile, Scores s,
                                Scores ds, Factors factors) {
  using T = typename In::Computed;
  const auto kept_mask = kept_weights_of<Scores>(in, tile);
  drop(in, kept_mask, ds);
  QueryFactors<T> of[Scores::kQueries];
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) of[q] = factors(q);
  if (in.softmax) {
    if constexpr (In::kSparse) {
      for_each_score<Scores>([&](int q, int c) { s.at(q, c) *= in.binary_scale; });
      set_self(in, tile, s, in.self_score);  // the same bits as in forward
    }
    for_each_score<Scores>([&](int q, int c) {
      const T score = In::kSparse ? s.at(q, c) : s.at(q, c) * in.binary_scale;
      s.at(q, c) = weight_exp2(score - of[q].log_or_inverse);
      ds.at(q, c) = s.at(q, c) * (ds.at(q, c) * in.scale - of[q].delta * in.scale);  // gradient of [Vaswani eq.1]
    });
    if constexpr (In::kSparse) set_self(in, tile, ds, T{0});
  } else if (!in.drops_tokens()) {
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, inverse = of[q].log_or_inverse;
      s.at(q, c) = (in.a0 + score * (in.a1 + score * in.a2)) * inverse;                                // [FAST eq.7]
      ds.at(q, c) = (in.a1 + 2 * in.a2 * score) * (ds.at(q, c) - of[q].delta) * (in.scale * inverse);  // [FAST eq.15]
    });
  } else {
    const auto tokens = kept_tokens_of<Scores>(in, tile);
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, inverse = of[q].log_or_inverse;
      const T kept = tokens.has(q, c) ? in.token_factor : T{0};
      const T mean = (in.shared_denominator ? kept : T{1}) * of[q].delta;
      s.at(q, c) = (in.a0 + score * (in.a1 + score * in.a2) * kept) * inverse;
      ds.at(q, c) = (in.a1 + 2 * in.a2 * score) * (kept * ds.at(q, c) - mean) * (in.scale * inverse);
    });
  }
  const auto seen = seen_of<Scores>(in, k, tile);
  hide(seen, s, T{0});
  hide(seen, ds, T{0});
  drop(in, kept_mask, s);
}

}  // namespace linnet::cuda
