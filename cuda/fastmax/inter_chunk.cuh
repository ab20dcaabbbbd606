#pragma once

#include <linnet/cuda/fastmax/feature_groups.cuh>

/// The inter-chunk part of Fastmax's factorised form on tensor cores: states from the sums of feature_groups.cuh, and
/// their use in the kernels of attention/mma_tiles.cuh. These kernels compute the intra-chunk part weight by weight.

namespace linnet::cuda {

// ---- States: weighted sums in the order of the fragments that a warp reads as right factors ----

/// One fragment word: two weighted sums as a pair of bfloat16, or one sum as a float.
struct FragmentWord {
  int low, high;  ///< indices of the sums; equal for a float
  float weight;

  __device__ uint32_t of(double low_sum, double high_sum) const {
    const float first = static_cast<float>(low_sum) * weight;
    if (low == high) return static_cast<uint32_t>(__float_as_int(first));
    return packed(first, static_cast<float>(high_sum) * weight);
  }
};

/// w∘S as right factors of φ(x)·(w∘S), group by group. Every 16 columns take 4 words of each lane, with two features
/// in a word; the last column follows in 8 words.
template <int kWidth>
struct StateOfValues {
  static constexpr int kLast = 8 * kWidth,
                       kFeatureGroupWords = kLast + 8;  ///< words of a group; the last column begins at kLast
  FeatureGroups<kWidth> feature_groups;

  __host__ __device__ int words() const { return feature_groups.count() * kFeatureGroupWords; }

  __device__ FragmentWord word(int w) const {
    const int index = w / kFeatureGroupWords, r = w % kFeatureGroupWords;
    const int word_in_lane = r % 4, lane_in_warp = r % 128 / 4;
    const bool last = r >= kLast;
    const int feature = last ? (r - kLast) * 2 : lane_in_warp % 4 * 2 + word_in_lane % 2 * 8;
    const int column = last ? kWidth : r / 128 * 16 + word_in_lane / 2 * 8 + lane_in_warp / 4;
    const int at = (index * 16 + feature) * feature_groups.kColumns + column;
    const auto feature_group = feature_groups.feature_group(index);
    const float linear =
        feature_group.entry_tile == feature_groups.kEntryTiles ? feature_groups.a0 : feature_groups.a1;
    const float quadratic =
        feature_group.a / 16 == feature_group.entry_tile ? feature_groups.a2 : 2 * feature_groups.a2;
    return {at, at + feature_groups.kColumns, feature_group.a == kWidth ? linear : quadratic};
  }
};

/// The factors of ∂x_b = Σ_a x_a (2·a2·S_ab·ỹ) + a1·S_b·ỹ as right factors of ỹ·Sᵀ: for each entry tile of b all
/// entries a, then the 1. Every 16 columns take 4 words of each lane, with two columns in a word; the last column
/// follows in 16 words of float.
template <int kWidth>
struct StateOfGradients {
  static constexpr int kLast = 8 * kWidth, kFeatureGroupWords = kLast + 16;
  FeatureGroups<kWidth> feature_groups;

  __host__ __device__ int first() const { return feature_groups.a2 == 0 ? kWidth : 0; }
  __host__ __device__ int words() const {
    return feature_groups.kEntryTiles * (kWidth + 1 - first()) * kFeatureGroupWords;
  }

  __device__ FragmentWord word(int w) const {
    const int index = w / kFeatureGroupWords, r = w % kFeatureGroupWords, entries = kWidth + 1 - first();
    const int word_in_lane = r % 4, lane_in_warp = r % 128 / 4;
    const bool last = r >= kLast;
    const int feature = last ? r - kLast : word_in_lane / 2 * 8 + lane_in_warp / 4;
    const int column = last ? kWidth : r / 128 * 16 + lane_in_warp % 4 * 2 + word_in_lane % 2 * 8;
    const int a = first() + index % entries, entry_tile = index / entries;
    const bool mirrored = a < kWidth && a / 16 < entry_tile;  // only the mirror image (b, a) has been summed
    const int row = mirrored ? feature_groups.index({entry_tile * 16 + feature, a / 16}) * 16 + a % 16
                             : feature_groups.index({a, entry_tile}) * 16 + feature;
    const int at = row * feature_groups.kColumns + column;
    return {at, last ? at : at + 1, a == kWidth ? feature_groups.a1 : 2 * feature_groups.a2};
  }
};

/// Packs a state after each chunk from the inclusive prefix sums over the chunks; with `totals`, only after the last
/// chunk. Sums are in double, because there may be many chunks. `carried` passes two sums for each word on to the
/// next group of chunks; it is null if there is no next group. Memory bounds it, or its latency if there are few
/// heads.
template <class State>
__global__ void pack_states(State state, ChunkGroup chunk_group, const float* sums, double* carried, uint32_t* words,
                            bool totals) {
  const int64_t size = state.words();
  for (int64_t item = first_item(); item < chunk_group.heads * size; item += item_step()) {
    const int64_t head = item / size, w = item % size;
    const FragmentWord word = state.word(static_cast<int>(w));
    const float* from = sums + head * chunk_group.chunks * state.feature_groups.sums();
    uint32_t* to = words + head * (totals ? 1 : chunk_group.chunks) * size + w;
    double low = chunk_group.first_chunk == 0 ? 0 : carried[2 * item],
           high = chunk_group.first_chunk == 0 ? 0 : carried[2 * item + 1];
    for (int64_t chunk = 0; chunk < chunk_group.chunks; ++chunk, from += state.feature_groups.sums()) {
      low += from[word.low];
      high += from[word.high];  // [FAST eq.34] [FAST eq.35]
      if (!totals) to[chunk * size] = word.of(low, high);
    }
    if (totals) *to = word.of(low, high);
    if (carried == nullptr) continue;
    carried[2 * item] = low;
    carried[2 * item + 1] = high;
  }
}

// ---- The use of states in the kernels of attention/mma_tiles.cuh ----

/// Four fragment words of a lane.
struct alignas(16) FragmentWords {
  uint32_t of[4];
};

/// The states of the other side's tokens. They sum over all tokens or, when causal, over the whole chunks that all
/// rows of a tile see.
template <int kWidth>
struct InterChunk {
  static constexpr bool kAny = true;
  FeatureGroups<kWidth> feature_groups;
  ChunkGroup chunk_group;  ///< the chunks whose states are in memory
  const uint32_t *values, *gradients;

  /// For a tile of queries: the number of chunks of keys in its state, and the first key that is not in it.
  template <class E>
  __device__ int64_t chunks_before(const QuadraticInputs<float, E>& in, int64_t first) const {
    return in.causal ? max(first + in.causal_offset(), int64_t{0}) / chunk_group.chunk_size : 0;
  }
  template <class E>
  __device__ int64_t first_key(const QuadraticInputs<float, E>& in, int64_t, int64_t first) const {
    return in.causal ? chunks_before(in, first) * chunk_group.chunk_size : in.keys;
  }
  /// For a tile of keys: the first chunk of queries in its state, and the end of the queries that are not in it. The
  /// sum goes from the last chunk of queries to chunk 0. No tile needs the sum that includes chunk 0, so it is not
  /// computed.
  template <class E>
  __device__ int64_t chunk_behind(const QuadraticInputs<float, E>& in, int64_t first) const {
    const int64_t sees_all = first + kMmaTile - 1 - in.causal_offset();
    return min(ceil_div(max(sees_all, int64_t{1}), chunk_group.chunk_size), chunk_group.all_chunks());
  }
  template <class E>
  __device__ int64_t end_query(const QuadraticInputs<float, E>& in, const KeyRange&, int64_t first) const {
    return in.causal ? min(chunk_behind(in, first) * chunk_group.chunk_size, in.queries) : 0;
  }

  /// The number of chunks in a tile's state.
  template <class E>
  __device__ int64_t count(const QuadraticInputs<float, E>& in, int64_t first) const {
    if (!in.causal) return 1;
    return chunk_group.reverse ? chunk_group.all_chunks() - chunk_behind(in, first) : chunks_before(in, first);
  }
  template <class E>
  __device__ int64_t state_of(const QuadraticInputs<float, E>& in, const QuadraticTask<float, E>& task) const {
    return (task.head - chunk_group.first_head) * chunk_group.chunks + count(in, task.first) - 1 -
           chunk_group.first_chunk;
  }

  /// sum += φ(x)·(w∘S) for a warp's rows of x; `total` += the last column.
  template <class E>
  __device__ void add_values(const QuadraticInputs<float, E>& in, const QuadraticTask<float, E>& task,
                             const RowTile<kWidth>& x, WarpSums<kWidth>& sum, float (&total)[2]) const {
    if (count(in, task.first) == 0) return;
    const StateOfValues<kWidth> state{feature_groups};
    const uint32_t* words = values + state_of(in, task) * state.words();
    const LeftRows<kWidth> rows(x);
    float last[4] = {};
    const auto add_feature_group = [&](const uint32_t(&features)[4]) {
#pragma unroll
      for (int d = 0; d < kWidth; d += 16) {
        const FragmentWords w = reinterpret_cast<const FragmentWords*>(words)[d * 2 + lane()];
        sum.add(d, features, w.of[0], w.of[1]);
        sum.add(d + 8, features, w.of[2], w.of[3]);  // [FAST eq.26], causal [FAST eq.32]
      }
      const bool first_column = lane() / 4 == 0;
      multiply_add(last[0], last[1], last[2], last[3], features, first_column ? words[state.kLast + lane() % 4] : 0,
                   first_column ? words[state.kLast + 4 + lane() % 4] : 0);
      words += state.kFeatureGroupWords;
    };
    const uint32_t one = lane() % 4 == 0 ? packed(1.0f, 0.0f) : 0;
    add_feature_group({one, one, 0, 0});
    const int row = sum.row(0);
#pragma unroll
    for (int entry_tile = 0; entry_tile < feature_groups.kEntryTiles; ++entry_tile) {
#pragma unroll 4
      for (int a = feature_groups.first(entry_tile); a < kWidth; ++a) {
        const uint32_t low = packed(x.of[row][a], x.of[row][a]), high = packed(x.of[row + 8][a], x.of[row + 8][a]);
        const uint32_t(&of)[4] = rows.of[entry_tile];
        add_feature_group({multiply(of[0], low), multiply(of[1], high), multiply(of[2], low), multiply(of[3], high)});
      }
      add_feature_group(rows.of[entry_tile]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += reduce_lanes<4>(lane() % 4 == 0 ? last[2 * r] : 0.0f, Plus());  // [FAST eq.27], causal [FAST eq.33]
    }
  }

  /// sum += ∂x of a warp's rows of x, from their ỹ = [y; last]: the gradient of [FAST eq.26] [FAST eq.27], and when
  /// causal of [FAST eq.32] [FAST eq.33].
  template <class E>
  __device__ void add_gradients(const QuadraticInputs<float, E>& in, const QuadraticTask<float, E>& task,
                                const RowTile<kWidth>& x, const RowTile<kWidth>& y, const float (&last)[2],
                                WarpSums<kWidth>& sum) const {
    if (count(in, task.first) == 0) return;
    const StateOfGradients<kWidth> state{feature_groups};
    const uint32_t* words = gradients + state_of(in, task) * state.words();
    const LeftRows<kWidth> rows(y);
    const int row = sum.row(0);
#pragma unroll
    for (int entry_tile = 0; entry_tile < feature_groups.kEntryTiles; ++entry_tile) {
      const auto add_feature_group = [&](float low, float high) {  // x_a of the lane's two rows
        WarpSums<16> group_sum;
#pragma unroll
        for (int c = 0; c < 4; c += 2) {
          const auto column = *reinterpret_cast<const PackOf<float, 2>*>(words + state.kLast + group_sum.column(c));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            group_sum.of[0][c + i] = column.of[i] * last[0];
            group_sum.of[1][c + i] = column.of[i] * last[1];
          }
        }
#pragma unroll
        for (int d = 0; d < kWidth; d += 16) {
          const FragmentWords w = reinterpret_cast<const FragmentWords*>(words)[d * 2 + lane()];
          group_sum.add(0, rows.of[d / 16], w.of[0], w.of[1]);
          group_sum.add(8, rows.of[d / 16], w.of[2], w.of[3]);
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sum.of[0][entry_tile * 4 + c] += group_sum.of[0][c] * low;
          sum.of[1][entry_tile * 4 + c] += group_sum.of[1][c] * high;
        }
        words += state.kFeatureGroupWords;
      };
#pragma unroll 2
      for (int a = state.first(); a < kWidth; ++a) {
        add_feature_group(static_cast<float>(x.of[row][a]), static_cast<float>(x.of[row + 8][a]));
      }
      add_feature_group(1, 1);
    }
  }

  /// add_gradients for queries, with ỹ = [d_o; −delta] / g. It divides by g at the end.
  template <class E>
  __device__ void add_query_gradients(const QuadraticInputs<float, E>& in, const QuadraticTask<float, E>& task,
                                      const RowTile<kWidth>& q, const RowTile<kWidth>& d_o,
                                      const QueryFactors<float> (&factors)[2], WarpSums<kWidth>& sum) const {
    add_gradients(in, task, q, d_o, {-factors[0].delta, -factors[1].delta}, sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (float& x : sum.of[r]) x *= factors[r].log_or_inverse;
    }
  }
};

}  // namespace linnet::cuda
