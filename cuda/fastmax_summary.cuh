#pragma once

#include <linnet/cuda/attention_mma.cuh>
#include <linnet/cuda/fastmax_states.cuh>

/// Fastmax in its factorised form (Gerami et al. 2024, section 2.4) by tensor cores on registers, for heads of up to
/// 64 columns and nothing dropped: what tokens of other chunks add to the sums of attention_mma.cuh, which makes the
/// rest of them weight by weight.
///
/// With x̃ = [x; 1], f(x·y) = a0 + a1·x·y + a2·(x·y)² is a sum over pairs (a, b) of (x̃_a x̃_b)(ỹ_a ỹ_b). A unit is 16
/// such features, of one entry a and a block of entries b: the factor that a warp has of the block anyway, times x_a.
/// Units of two entries of x are summed for blocks up to a's own. One of another block stands for its mirror too; of
/// a's own block all pairs are there. a = kWidth, the 1, has the linear units, and beside itself the constant one.

namespace linnet::cuda {

template <int kWidth>
struct Units {
  static constexpr int kBlocks = kWidth / 16;

  float a0, a1, a2;

  /// A unit's entry a, and its block b.
  struct Unit {
    int a, block;
  };

  /// The first entry a beside a block, from where on they go up to kWidth.
  __host__ __device__ int first(int block) const { return a2 == 0 || block == kBlocks ? kWidth : block * 16; }
  /// Where the units of a block begin.
  __host__ __device__ int begin(int block) const {
    return a2 == 0 ? block : block * (kWidth + 1) - 8 * block * (block - 1);
  }
  __host__ __device__ int count() const { return begin(kBlocks) + 1; }
  __device__ Unit unit(int index) const {
    int block = kBlocks;
    while (begin(block) > index) --block;
    return {first(block) + index - begin(block), block};
  }
  __device__ int index(Unit unit) const { return begin(unit.block) + unit.a - first(unit.block); }

  /// Sums of a state in float: [unit, feature, column], of which the last column is the denominator's.
  static constexpr int kColumns = kWidth + 1;
  __host__ __device__ int sums() const { return count() * 16 * kColumns; }
};

// ---- Sums over tokens ----

/// Units of a warp, as many as have their sums in registers.
template <int kWidth>
constexpr int kUnitsOfWarp = kWidth == 32 ? 4 : 3;
template <int kWidth>
constexpr int kUnitsOfBlock = kUnitsOfWarp<kWidth> * kMmaThreads / kWarp;

__device__ inline uint32_t packed(BFloat16 low, BFloat16 high) {
  return __bfloat16_as_ushort(low) | uint32_t{__bfloat16_as_ushort(high)} << 16;
}

/// Both numbers of `pair` times those of `factor`.
__device__ inline uint32_t multiply(uint32_t pair, uint32_t factor) {
  const auto number = [](uint32_t bits) { return __ushort_as_bfloat16(static_cast<unsigned short>(bits)); };
  const __nv_bfloat162 product = __hmul2(__halves2bfloat162(number(pair & 0xffff), number(pair >> 16)),
                                         __halves2bfloat162(number(factor & 0xffff), number(factor >> 16)));
  return packed(product.x, product.y);
}

/// Some tokens of one side, with 0 for padding and for queries that see no key.
template <int kWidth>
struct TokenTile {
  RowTile<kWidth> x, y;
  BFloat16 one[kMmaTile], last[kMmaTile];  ///< of x̃ and ỹ
};

/// Keys, with ỹ = [v; 1].
template <class E>
struct KeySide {
  template <int kWidth>
  __device__ void load(TokenTile<kWidth>& tile, const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                       int64_t first) const {
    const Rows<const E> k = task.keys(in, in.k);
    load_rows(tile.x, k, first);
    load_rows(tile.y, task.keys(in, in.v), first);
    if (threadIdx.x < kMmaTile) {
      const BFloat16 there(k.has(first + threadIdx.x) ? 1.0f : 0.0f);
      tile.one[threadIdx.x] = tile.last[threadIdx.x] = there;
    }
    __syncthreads();
  }
};

/// Queries, with ỹ = [d_o; −delta] / g.
template <class E>
struct QuerySide {
  QuadraticCotangents<float, E> from;

  template <int kWidth>
  __device__ void load(TokenTile<kWidth>& tile, const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                       int64_t first) const {
    const Rows<const E> q = task.queries(in, in.q);
    load_rows(tile.x, q, first);
    load_rows(tile.y, task.queries(in, from.d_o), first);
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kMmaTile * kWidth; e += kMmaThreads) {
      const int i = e / kWidth, c = e % kWidth;
      const bool there = q.has(first + i);
      const int64_t row = task.head * in.queries + first + i;
      const float g = there ? from.normaliser[row] : 0.0f, inverse = g == 0 ? 0.0f : 1 / g;
      BFloat16& y = tile.y.of[i][c];
      y = BFloat16(inverse == 0 ? 0.0f : static_cast<float>(y) * inverse);
      if (c > 0) continue;
      tile.one[i] = BFloat16(there ? 1.0f : 0.0f);
      tile.last[i] = BFloat16(inverse == 0 ? 0.0f : -from.delta[row] * inverse);
    }
    __syncthreads();
  }
};

/// What a warp sums of one unit: features × columns, and the last column beside them as the first of eight.
template <int kWidth>
struct UnitSums {
  WarpSums<kWidth> columns;
  float last[4] = {};

  /// += the features of 16 tokens, from `k` on, times their ỹ, which are `y`'s columns and `ends`.
  __device__ void add(const uint32_t (&features)[4], const uint32_t (&y)[kWidth / 16][4], const uint32_t (&ends)[2]) {
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      columns.add(d, features, y[d / 16][0], y[d / 16][1]);
      columns.add(d + 8, features, y[d / 16][2], y[d / 16][3]);
    }
    multiply_add(last[0], last[1], last[2], last[3], features, ends[0], ends[1]);
  }
};

/// The features of a unit, of 16 tokens from `k` on, as left factors of a sum over tokens: features × tokens.
template <int kWidth>
__device__ void load_features(uint32_t (&features)[4], const TokenTile<kWidth>& tokens, int k,
                              typename Units<kWidth>::Unit unit) {
  const int token = k + lane() % 4 * 2;  // and the next; both again 8 further
  if (unit.block == Units<kWidth>::kBlocks) {
    const bool first = lane() / 4 == 0;
    features[0] = first ? packed(tokens.one[token], tokens.one[token + 1]) : 0;
    features[2] = first ? packed(tokens.one[token + 8], tokens.one[token + 9]) : 0;
    features[1] = features[3] = 0;
    return;
  }
  load_transposed(features, &tokens.x.of[k + lane() / 16 * 8 + lane() % 8][unit.block * 16 + lane() / 8 % 2 * 8]);
  if (unit.a == kWidth) return;
  const uint32_t low = packed(tokens.x.of[token][unit.a], tokens.x.of[token + 1][unit.a]);
  const uint32_t high = packed(tokens.x.of[token + 8][unit.a], tokens.x.of[token + 9][unit.a]);
  features[0] = multiply(features[0], low);
  features[1] = multiply(features[1], low);
  features[2] = multiply(features[2], high);
  features[3] = multiply(features[3], high);
}

/// S = Σ_n φ(x_n) ỹ_nᵀ over the tokens of each lane's chunk: a block for some units, a warp for a few of them. By the
/// count of instructions, not tensor cores bound it, but the bringing of their factors.
template <int kWidth, class E, class Side>
__global__ void __launch_bounds__(kMmaThreads, kWidth == 32 ? 3 : 2)
    sum_units(Quadratic<float, E> in, Side side, Units<kWidth> units, Lanes lanes, float* sums) {
  constexpr int kUnits = kUnitsOfWarp<kWidth>;
  __shared__ TokenTile<kWidth> tokens;
  const int64_t groups = ceil_div(units.count(), kUnitsOfBlock<kWidth>);
  for (int64_t index = blockIdx.x; index < lanes.count() * groups; index += gridDim.x) {
    const int64_t at = index / groups;
    const int first_unit =
        static_cast<int>(index % groups) * kUnitsOfBlock<kWidth> + static_cast<int>(threadIdx.x) / kWarp * kUnits;
    typename Units<kWidth>::Unit unit[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) unit[u] = units.unit(min(first_unit + u, units.count() - 1));
    UnitSums<kWidth> sum[kUnits];
    const QuadraticTask<float, E> task(in, lanes.head_of(at), 1, 1);
    const int64_t first = lanes.first_of(at), end = min(first + lanes.chunk, lanes.end);
    for (int64_t token = first; token < end; token += kMmaTile) {
      __syncthreads();  // the last tile has been used
      side.load(tokens, in, task, token);
#pragma unroll 1
      for (int k = 0; k < kMmaTile; k += 16) {
        uint32_t y[kWidth / 16][4];
#pragma unroll
        for (int d = 0; d < kWidth; d += 16) {
          load_transposed(y[d / 16], &tokens.y.of[k + lane() % 16][d + lane() / 16 * 8]);
        }
        const int row = k + lane() % 4 * 2;
        const bool first_column = lane() / 4 == 0;
        const uint32_t ends[] = {first_column ? packed(tokens.last[row], tokens.last[row + 1]) : 0,
                                 first_column ? packed(tokens.last[row + 8], tokens.last[row + 9]) : 0};
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          uint32_t features[4];
          load_features(features, tokens, k, unit[u]);
          sum[u].add(features, y, ends);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (first_unit + u >= units.count()) continue;
      float* to = sums + at * units.sums() + (first_unit + u) * 16 * units.kColumns;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float* row = to + (lane() / 4 + 8 * r) * units.kColumns;
#pragma unroll
        for (int c = 0; c < kWidth / 4; ++c) row[WarpSums<kWidth>::column(c)] = sum[u].columns.of[r][c];
        if (lane() % 4 == 0) row[kWidth] = sum[u].last[2 * r];
      }
    }
  }
}

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
  static constexpr int kUnitWords = 8 * kWidth + 8;
  Units<kWidth> units;

  __host__ __device__ int words() const { return units.count() * kUnitWords; }

  __device__ Word word(int w) const {
    const int index = w / kUnitWords, r = w % kUnitWords;
    const int in_lane = r % 4, of_lane = r % 128 / 4;
    const bool last = r >= 8 * kWidth;
    const int feature = last ? (r - 8 * kWidth) * 2 : of_lane % 4 * 2 + in_lane % 2 * 8;
    const int column = last ? kWidth : r / 128 * 16 + in_lane / 2 * 8 + of_lane / 4;
    const int at = (index * 16 + feature) * units.kColumns + column;
    const auto unit = units.unit(index);
    const float linear = unit.block == units.kBlocks ? units.a0 : units.a1;
    const float quadratic = unit.a / 16 == unit.block ? units.a2 : 2 * units.a2;
    return {at, at + units.kColumns, unit.a == kWidth ? linear : quadratic};
  }
};

/// What ỹ is multiplied by to make of x_a the gradient of a block of entries, for all blocks and entries a, in both
/// orders: 2·a2·Sᵀ; and for the 1 behind them, a1·Sᵀ. For every 16 columns 4 words a lane, of two columns each; then
/// the last column, 16 words in float.
template <int kWidth>
struct StateOfGradients {
  static constexpr int kUnitWords = 8 * kWidth + 16;
  Units<kWidth> units;

  __host__ __device__ int first() const { return units.a2 == 0 ? kWidth : 0; }
  __host__ __device__ int words() const { return units.kBlocks * (kWidth + 1 - first()) * kUnitWords; }

  __device__ Word word(int w) const {
    const int index = w / kUnitWords, r = w % kUnitWords, entries = kWidth + 1 - first();
    const int in_lane = r % 4, of_lane = r % 128 / 4;
    const bool last = r >= 8 * kWidth;
    const int feature = last ? r - 8 * kWidth : in_lane / 2 * 8 + of_lane / 4;
    const int column = last ? kWidth : r / 128 * 16 + of_lane % 4 * 2 + in_lane % 2 * 8;
    const int a = first() + index % entries, block = index / entries;
    const bool mirrored = a < kWidth && a / 16 < block;  // of two blocks, one order has been summed
    const int row =
        mirrored ? units.index({block * 16 + feature, a / 16}) * 16 + a % 16 : units.index({a, block}) * 16 + feature;
    const int at = row * units.kColumns + column;
    return {at, last ? at : at + 1, a == kWidth ? units.a1 : 2 * units.a2};
  }
};

/// Adds up each head's sums, in the order of the chunks, in double, as there may be many; `carried`, two numbers for
/// each word, holds what there is before the first. Makes of what is before a chunk its state; or of all, with
/// `totals`, one. Memory bounds it.
template <class State>
__global__ void pack_states(State state, Lanes lanes, const float* sums, double* carried, uint32_t* words,
                            bool totals) {
  const int64_t size = state.words();
  for (int64_t item = first_item(); item < lanes.heads * size; item += item_step()) {
    const int64_t head = item / size, w = item % size;
    const Word word = state.word(static_cast<int>(w));
    const float* from = sums + head * lanes.chunks * state.units.sums();
    uint32_t* to = words + head * (totals ? 1 : lanes.chunks) * size + w;
    double low = carried[2 * item], high = carried[2 * item + 1];
    for (int64_t chunk = 0; chunk < lanes.chunks; ++chunk, from += state.units.sums()) {
      if (!totals) to[chunk * size] = word.of(low, high);
      low += from[word.low];
      high += from[word.high];
    }
    carried[2 * item] = low;
    carried[2 * item + 1] = high;
    if (totals) *to = word.of(low, high);
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
  Units<kWidth> units;
  Lanes lanes;  ///< whose states are there
  const uint32_t *values, *gradients;

  /// For a tile of queries: how many chunks of keys are summed up, and the first key that is not.
  template <class E>
  __device__ int64_t chunks_before(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? max(first + in.lag(), int64_t{0}) / lanes.chunk : 0;
  }
  template <class E>
  __device__ int64_t first_key(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? chunks_before(in, first) * lanes.chunk : in.keys;
  }
  /// For a tile of keys: the chunk from which on queries are summed up, and the end of those that are not. Not the
  /// first chunk, so that the sums of all chunks are no state.
  template <class E>
  __device__ int64_t chunk_behind(const Quadratic<float, E>& in, int64_t first) const {
    const int64_t sees_all = first + kMmaTile - 1 - in.lag();
    return min(ceil_div(max(sees_all, int64_t{1}), lanes.chunk), lanes.all_chunks());
  }
  template <class E>
  __device__ int64_t end_query(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal ? min(chunk_behind(in, first) * lanes.chunk, in.queries) : 0;
  }

  /// The number of a tile's state among those of its head, in the order of the sum.
  template <class E>
  __device__ int64_t number(const Quadratic<float, E>& in, int64_t first) const {
    if (!in.causal) return 0;
    return lanes.reverse ? lanes.all_chunks() - chunk_behind(in, first) : chunks_before(in, first);
  }
  template <class E>
  __device__ bool is_empty(const Quadratic<float, E>& in, int64_t first) const {
    return in.causal && number(in, first) == 0;
  }
  template <class E>
  __device__ int64_t lane_of(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task) const {
    return (task.head - lanes.head) * lanes.chunks + number(in, task.first) - lanes.step;
  }

  /// sum += φ(x)·(w∘S) for a warp's rows of x, and `total` likewise by the last column.
  template <class E>
  __device__ void add_values(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                             const RowTile<kWidth>& x, WarpSums<kWidth>& sum, float (&total)[2]) const {
    if (is_empty(in, task.first)) return;
    const StateOfValues<kWidth> state{units};
    const uint32_t* words = values + lane_of(in, task) * state.words();
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
      multiply_add(last[0], last[1], last[2], last[3], features, first_column ? words[8 * kWidth + lane() % 4] : 0,
                   first_column ? words[8 * kWidth + 4 + lane() % 4] : 0);
      words += state.kUnitWords;
    };
    const int row = sum.row(0);
#pragma unroll
    for (int block = 0; block < units.kBlocks; ++block) {
#pragma unroll 4
      for (int a = units.first(block); a < kWidth; ++a) {
        const uint32_t low = packed(x.of[row][a], x.of[row][a]), high = packed(x.of[row + 8][a], x.of[row + 8][a]);
        const uint32_t(&of)[4] = rows.of[block];
        add_unit({multiply(of[0], low), multiply(of[1], high), multiply(of[2], low), multiply(of[3], high)});
      }
      add_unit(rows.of[block]);
    }
    const uint32_t one = lane() % 4 == 0 ? packed(1.0f, 0.0f) : 0;
    add_unit({one, one, 0, 0});
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] += fold_lanes<4>(lane() % 4 == 0 ? last[2 * r] : 0.0f, Plus());
  }

  /// sum += the gradient of a warp's rows of x, for their ỹ = [y; last].
  template <class E>
  __device__ void add_gradients(const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                                const RowTile<kWidth>& x, const RowTile<kWidth>& y, const float (&last)[2],
                                WarpSums<kWidth>& sum) const {
    if (is_empty(in, task.first)) return;
    const StateOfGradients<kWidth> state{units};
    const uint32_t* words = gradients + lane_of(in, task) * state.words();
    const LeftRows<kWidth> rows(y);
    const int row = sum.row(0);
#pragma unroll
    for (int block = 0; block < units.kBlocks; ++block) {
#pragma unroll 2
      for (int a = state.first(); a <= kWidth; ++a, words += state.kUnitWords) {
        WarpSums<16> of_block;
        const auto* column = reinterpret_cast<const float*>(words + 8 * kWidth);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          of_block.of[0][c] = column[of_block.column(c)] * last[0];
          of_block.of[1][c] = column[of_block.column(c)] * last[1];
        }
#pragma unroll
        for (int d = 0; d < kWidth; d += 16) {
          const Words w = reinterpret_cast<const Words*>(words)[d * 2 + lane()];
          of_block.add(0, rows.of[d / 16], w.of[0], w.of[1]);
          of_block.add(8, rows.of[d / 16], w.of[2], w.of[3]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float factor = a == kWidth ? 1.0f : static_cast<float>(x.of[row + 8 * r][a]);
#pragma unroll
          for (int c = 0; c < 4; ++c) sum.of[r][block * 4 + c] += of_block.of[r][c] * factor;
        }
      }
    }
  }
};

}  // namespace linnet::cuda
