#pragma once

#include <linnet/cuda/fastmax/feature_groups.cuh>

/// What the kernels of attention_mma.cuh add to the weights that they make, in the factorised form of Fastmax: the
/// tokens of other chunks, by their sums (fastmax_units.cuh).

namespace linnet::cuda {

// ---- States: weighted sums, in the order in which a warp reads them as right factors ----

/// Of what a word is made: of two sums, each with the weight, as bfloat16; or of one, as float.
struct Word {
  int low, high;  ///< places of sums; the same for one
  float weight;

  __device__ uint32_t of(double low_sum, double high_sum) const {
    const float first = static_cast<float>(low_sum) * weight;
    if (low == high) return static_cast<uint32_t>(__float_as_int(first));
    return packed(first, static_cast<float>(high_sum) * weight);
  }
};

/// w∘S as right factors of φ·(w∘S), unit by unit: for every 16 columns 4 words a lane, of two features each; then the
/// last column, 8 words.
template <int kWidth>
struct StateOfValues {
  static constexpr int kLast = 8 * kWidth,
                       kFeatureGroupWords = kLast + 8;  ///< of a unit; the last column's are from kLast on
  FeatureGroups<kWidth> feature_groups;

  __host__ __device__ int words() const { return feature_groups.count() * kFeatureGroupWords; }

  __device__ Word word(int w) const {
    const int index = w / kFeatureGroupWords, r = w % kFeatureGroupWords;
    const int in_lane = r % 4, of_lane = r % 128 / 4;
    const bool last = r >= kLast;
    const int feature = last ? (r - kLast) * 2 : of_lane % 4 * 2 + in_lane % 2 * 8;
    const int column = last ? kWidth : r / 128 * 16 + in_lane / 2 * 8 + of_lane / 4;
    const int at = (index * 16 + feature) * feature_groups.kColumns + column;
    const auto feature_group = feature_groups.feature_group(index);
    const float linear = feature_group.block == feature_groups.kBlocks ? feature_groups.a0 : feature_groups.a1;
    const float quadratic = feature_group.a / 16 == feature_group.block ? feature_groups.a2 : 2 * feature_groups.a2;
    return {at, at + feature_groups.kColumns, feature_group.a == kWidth ? linear : quadratic};
  }
};

/// The factors of ∂x_b = Σ_a x_a (2·a2·S_ab·ỹ) + a1·S_b·ỹ as right factors of ỹ·Sᵀ, for all blocks of b and in each
/// for all a, and behind them the 1. For every 16 columns 4 words a lane, of two columns each; then the last column,
/// 16 words in float.
template <int kWidth>
struct StateOfGradients {
  static constexpr int kLast = 8 * kWidth, kFeatureGroupWords = kLast + 16;
  FeatureGroups<kWidth> feature_groups;

  __host__ __device__ int first() const { return feature_groups.a2 == 0 ? kWidth : 0; }
  __host__ __device__ int words() const {
    return feature_groups.kBlocks * (kWidth + 1 - first()) * kFeatureGroupWords;
  }

  __device__ Word word(int w) const {
    const int index = w / kFeatureGroupWords, r = w % kFeatureGroupWords, entries = kWidth + 1 - first();
    const int in_lane = r % 4, of_lane = r % 128 / 4;
    const bool last = r >= kLast;
    const int feature = last ? r - kLast : in_lane / 2 * 8 + of_lane / 4;
    const int column = last ? kWidth : r / 128 * 16 + of_lane % 4 * 2 + in_lane % 2 * 8;
    const int a = first() + index % entries, block = index / entries;
    const bool mirrored = a < kWidth && a / 16 < block;  // of two blocks, one order has been summed
    const int row = mirrored ? feature_groups.index({block * 16 + feature, a / 16}) * 16 + a % 16
                             : feature_groups.index({a, block}) * 16 + feature;
    const int at = row * feature_groups.kColumns + column;
    return {at, last ? at : at + 1, a == kWidth ? feature_groups.a1 : 2 * feature_groups.a2};
  }
};

/// Adds up each head's sums, in the order of the chunks, in double, as there may be many, and makes a state of what
/// there is after each chunk; or, with `totals`, after the last one only. `carried`, null where these are all chunks,
/// takes two numbers for each word on to the next ones. Memory bounds it, or its latency where heads are few.
template <class State>
__global__ void pack_states(State state, ChunkGroup chunk_group, const float* sums, double* carried, uint32_t* words,
                            bool totals) {
  const int64_t size = state.words();
  for (int64_t item = first_item(); item < chunk_group.heads * size; item += item_step()) {
    const int64_t head = item / size, w = item % size;
    const Word word = state.word(static_cast<int>(w));
    const float* from = sums + head * chunk_group.chunks * state.feature_groups.sums();
    uint32_t* to = words + head * (totals ? 1 : chunk_group.chunks) * size + w;
    double low = chunk_group.step == 0 ? 0 : carried[2 * item],
           high = chunk_group.step == 0 ? 0 : carried[2 * item + 1];
    for (int64_t chunk = 0; chunk < chunk_group.chunks; ++chunk, from += state.feature_groups.sums()) {
      low += from[word.low];
      high += from[word.high];
      if (!totals) to[chunk * size] = word.of(low, high);
    }
    if (totals) *to = word.of(low, high);
    if (carried == nullptr) continue;
    carried[2 * item] = low;
    carried[2 * item + 1] = high;
  }
}

// ---- Their use, in the kernels of attention_mma.cuh ----

/// Four words of a lane.
struct alignas(16) Words {
  uint32_t of[4];
};

/// The tokens of the other side that are summed up: all; or when causal, whole chunks, which all of a tile see.
template <int kWidth>
struct Summary {
  static constexpr bool kAny = true;
  FeatureGroups<kWidth> feature_groups;
  ChunkGroup chunk_group;  ///< whose states are there
  const uint32_t *values, *gradients;

  /// For a tile of queries: how many chunks of keys are summed up, and the first key that is not.
  template <class E>
  __device__ int64_t chunks_before(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? max(first + in.causal_offset(), int64_t{0}) / chunk_group.chunk : 0;
  }
  template <class E>
  __device__ int64_t first_key(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? chunks_before(in, first) * chunk_group.chunk : in.keys;
  }
  /// For a tile of keys: the chunk from which on queries are summed up, and the end of those that are not. Never the
  /// first, so that for both sides the last chunk in the order of the sum is in no state.
  template <class E>
  __device__ int64_t chunk_behind(const Quadratic<float, E>& in, int64_t first) const {
    const int64_t sees_all = first + kMmaTile - 1 - in.causal_offset();
    return min(ceil_div(max(sees_all, int64_t{1}), chunk_group.chunk), chunk_group.all_chunks());
  }
  template <class E>
  __device__ int64_t end_query(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? min(chunk_behind(in, first) * chunk_group.chunk, in.queries) : 0;
  }

  /// How many chunks are summed up for a tile.
  template <class E>
  __device__ int64_t count(const Quadratic<float, E>& in, int64_t first) const {
    if (!in.causal) return 1;
    return chunk_group.reverse ? chunk_group.all_chunks() - chunk_behind(in, first) : chunks_before(in, first);
  }
  template <class E>
  __device__ int64_t state_of(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task) const {
    return (task.head - chunk_group.head) * chunk_group.chunks + count(in, task.first) - 1 - chunk_group.step;
  }

  /// sum += φ(x)·(w∘S) for a warp's rows of x, and `total` likewise by the last column.
  template <class E>
  __device__ void add_values(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                             const RowTile<kWidth>& x, WarpSums<kWidth>& sum, float (&total)[2]) const {
    if (count(in, task.first) == 0) return;
    const StateOfValues<kWidth> state{feature_groups};
    const uint32_t* words = values + state_of(in, task) * state.words();
    const LeftRows<kWidth> rows(x);
    float last[4] = {};
    const auto add_unit = [&](const uint32_t(&features)[4]) {
#pragma unroll
      for (int d = 0; d < kWidth; d += 16) {
        const Words w = reinterpret_cast<const Words*>(words)[d * 2 + lane()];
        sum.add(d, features, w.of[0], w.of[1]);
        sum.add(d + 8, features, w.of[2], w.of[3]);
      }
      const bool first_column = lane() / 4 == 0;
      multiply_add(last[0], last[1], last[2], last[3], features, first_column ? words[state.kLast + lane() % 4] : 0,
                   first_column ? words[state.kLast + 4 + lane() % 4] : 0);
      words += state.kFeatureGroupWords;
    };
    const uint32_t one = lane() % 4 == 0 ? packed(1.0f, 0.0f) : 0;
    add_unit({one, one, 0, 0});
    const int row = sum.row(0);
#pragma unroll
    for (int block = 0; block < feature_groups.kBlocks; ++block) {
#pragma unroll 4
      for (int a = feature_groups.first(block); a < kWidth; ++a) {
        const uint32_t low = packed(x.of[row][a], x.of[row][a]), high = packed(x.of[row + 8][a], x.of[row + 8][a]);
        const uint32_t(&of)[4] = rows.of[block];
        add_unit({multiply(of[0], low), multiply(of[1], high), multiply(of[2], low), multiply(of[3], high)});
      }
      add_unit(rows.of[block]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] += reduce_lanes<4>(lane() % 4 == 0 ? last[2 * r] : 0.0f, Plus());
  }

  /// sum += the gradient of a warp's rows of x, for their ỹ = [y; last].
  template <class E>
  __device__ void add_gradients(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                                const RowTile<kWidth>& x, const RowTile<kWidth>& y, const float (&last)[2],
                                WarpSums<kWidth>& sum) const {
    if (count(in, task.first) == 0) return;
    const StateOfGradients<kWidth> state{feature_groups};
    const uint32_t* words = gradients + state_of(in, task) * state.words();
    const LeftRows<kWidth> rows(y);
    const int row = sum.row(0);
#pragma unroll
    for (int block = 0; block < feature_groups.kBlocks; ++block) {
      const auto add_unit = [&](float low, float high) {  // for x_a of rows
        WarpSums<16> of_unit;
#pragma unroll
        for (int c = 0; c < 4; c += 2) {
          const auto column = *reinterpret_cast<const Strip<float, 2>*>(words + state.kLast + of_unit.column(c));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            of_unit.of[0][c + i] = column.of[i] * last[0];
            of_unit.of[1][c + i] = column.of[i] * last[1];
          }
        }
#pragma unroll
        for (int d = 0; d < kWidth; d += 16) {
          const Words w = reinterpret_cast<const Words*>(words)[d * 2 + lane()];
          of_unit.add(0, rows.of[d / 16], w.of[0], w.of[1]);
          of_unit.add(8, rows.of[d / 16], w.of[2], w.of[3]);
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          sum.of[0][block * 4 + c] += of_unit.of[0][c] * low;
          sum.of[1][block * 4 + c] += of_unit.of[1][c] * high;
        }
        words += state.kFeatureGroupWords;
      };
#pragma unroll 2
      for (int a = state.first(); a < kWidth; ++a) {
        add_unit(static_cast<float>(x.of[row][a]), static_cast<float>(x.of[row + 8][a]));
      }
      add_unit(1, 1);
    }
  }

  /// The same for queries, of whose ỹ `d_o` is the part that is not yet divided.
  template <class E>
  __device__ void add_query_gradients(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                                      const RowTile<kWidth>& q, const RowTile<kWidth>& d_o,
                                      const QueryFactors<float> (&factors)[2], WarpSums<kWidth>& sum) const {
    add_gradients(in, task, q, d_o, {-factors[0].delta, -factors[1].delta}, sum);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (float& x : sum.of[r]) x *= factors[r].denominator;
    }
  }
};

}  // namespace linnet::cuda
