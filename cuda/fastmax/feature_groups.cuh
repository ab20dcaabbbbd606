#pragma once

#include <linnet/cuda/attention/mma_tiles.cuh>
#include <linnet/cuda/fastmax/states.cuh>

/// The features φ(x) of Fastmax in its factorised form (Gerami et al. 2024, section 2.4), and their sums over tokens,
/// for heads of up to kWidth columns. The features are computed in a warp's registers as factors of tensor cores
/// (mma.cuh).
///
/// With x̃ = [x; 1], f(q·k) = a0 + a1·q·k + a2·(q·k)² is a weighted sum of (q̃_a q̃_b)(k̃_a k̃_b) over pairs (a, b).
/// A feature group is 16 such features: one entry a times the 16 entries b of an entry tile, whose fragment a warp
/// loads anyway. Entry tile t consists of x̃'s entries 16 t … 16 t + 15.
///
/// Quadratic groups (a < kWidth) exist for entry tiles up to the one that contains a. For an earlier tile, a group
/// also counts for its mirror image, the pairs (b, a); for a's own tile, the groups have all pairs. Linear groups
/// have a = kWidth, because that entry of x̃ is 1. The constant group, 1 times 1, comes first.

namespace linnet::cuda {

template <int kWidth>
struct FeatureGroups {
  static constexpr int kEntryTiles = kWidth / 16;

  float a0, a1, a2;

  /// Entry a, and the tile of the entries b.
  struct FeatureGroup {
    int a, entry_tile;
  };

  /// The first entry a of the groups of an entry tile; the last one is kWidth.
  __host__ __device__ int first(int entry_tile) const { return a2 == 0 ? kWidth : entry_tile * 16; }
  /// The index of the first group of an entry tile.
  __host__ __device__ int begin(int entry_tile) const {
    return 1 + (a2 == 0 ? entry_tile : entry_tile * (kWidth + 1) - 8 * entry_tile * (entry_tile - 1));
  }
  __host__ __device__ int count() const { return begin(kEntryTiles); }
  __device__ FeatureGroup feature_group(int index) const {
    if (index == 0) return {kWidth, kEntryTiles};
    int entry_tile = kEntryTiles - 1;
    while (begin(entry_tile) > index) --entry_tile;
    return {first(entry_tile) + index - begin(entry_tile), entry_tile};
  }
  __device__ int index(FeatureGroup feature_group) const {
    return begin(feature_group.entry_tile) + feature_group.a - first(feature_group.entry_tile);
  }

  /// Sums of a chunk in float: [feature group, feature, column]. The last column is the denominator's.
  static constexpr int kColumns = kWidth + 1;
  __host__ __device__ int sums() const { return count() * 16 * kColumns; }
};

/// The number of feature groups of a warp: as many as there are registers for their sums.
template <int kWidth>
constexpr int kFeatureGroupsOfWarp = kWidth == 32 ? 4 : 3;
template <int kWidth>
constexpr int kFeatureGroupsOfBlock = kFeatureGroupsOfWarp<kWidth> * kMmaThreads / kWarp;

/// The products of two packed pairs.
__device__ inline uint32_t multiply(uint32_t pair, uint32_t factor) {
  const auto number = [](uint32_t bits) { return __ushort_as_bfloat16(static_cast<unsigned short>(bits)); };
  const __nv_bfloat162 product = __hmul2(__halves2bfloat162(number(pair & 0xffff), number(pair >> 16)),
                                         __halves2bfloat162(number(factor & 0xffff), number(factor >> 16)));
  return packed(product.x, product.y);
}

/// Tokens of one side: x̃ = [x; one], and ỹ = [y; last], by which the sums multiply their features. Both are 0 for
/// padding and for queries that see no key.
template <int kWidth>
struct TokenTile {
  RowTile<kWidth> x, y;
  BFloat16 one[kMmaTile], last[kMmaTile];
};

/// Loads tiles of keys, with ỹ = [v; 1].
template <class E>
struct KeySource {
  static constexpr bool kReverse = false;  ///< chunks are summed from the first to the last

  template <int kWidth>
  __device__ void load(TokenTile<kWidth>& tile, const QuadraticInputs<float, E>& in,
                       const QuadraticTask<float, E>& task, int64_t first) const {
    const HeadMatrix<const E> k = task.keys(in, in.k);
    load_rows(tile.x, k, first);
    load_rows(tile.y, task.keys(in, in.v), first);
    if (threadIdx.x < kMmaTile) {
      const BFloat16 there(k.has(first + threadIdx.x) ? 1.0f : 0.0f);
      tile.one[threadIdx.x] = tile.last[threadIdx.x] = there;
    }
  }
};

/// Loads tiles of queries, with ỹ = [d_o; −delta] / g; 0 for a query that sees no key, and beyond the last query.
template <class E>
struct QuerySource {
  static constexpr bool kReverse = true;
  static constexpr int kPackSize = 16 / sizeof(E);  ///< columns that a thread loads together from aligned rows
  QuadraticCotangents<float, E> from;

  template <int kWidth>
  __device__ void load(TokenTile<kWidth>& tile, const QuadraticInputs<float, E>& in,
                       const QuadraticTask<float, E>& task, int64_t first) const {
    static_assert(kMmaThreads == 2 * kMmaTile, "two threads for each query");
    const HeadMatrix<const E> q = task.queries(in, in.q), d_o = task.queries(in, from.d_o);
    load_rows(tile.x, q, first);
    const int i = static_cast<int>(threadIdx.x) / 2;
    const bool there = q.has(first + i);
    const QueryFactors<float> factors = query_factors(in, from, task.head, first + i);
    const float inverse = factors.log_or_inverse;
    const int half = static_cast<int>(threadIdx.x) % 2;
    const E* row = d_o.data + (first + i) * d_o.stride;
    if (d_o.width == kWidth && d_o.in_packs(kPackSize)) {
#pragma unroll
      for (int c = half * kPackSize; c < kWidth; c += 2 * kPackSize) {
        PackOf<E, kPackSize> g = {};
        if (inverse != 0) g = *reinterpret_cast<const PackOf<E, kPackSize>*>(row + c);
        PackOf<BFloat16, kPackSize> y;
#pragma unroll
        for (int e = 0; e < kPackSize; ++e) y.of[e] = BFloat16(static_cast<float>(g.of[e]) * inverse);
        *reinterpret_cast<PackOf<BFloat16, kPackSize>*>(&tile.y.of[i][c]) = y;
      }
    } else {
#pragma unroll 4
      for (int c = half; c < kWidth; c += 2) {
        const bool is_zero = inverse == 0 || c >= d_o.width;
        tile.y.of[i][c] = BFloat16(is_zero ? 0.0f : static_cast<float>(row[c]) * inverse);
      }
    }
    if (half == 0) {
      tile.one[i] = BFloat16(there ? 1.0f : 0.0f);
      tile.last[i] = BFloat16(-factors.delta * inverse);
    }
  }
};

/// A thread's part of a warp's sums of one feature group: features × columns, and the last column, which is the first
/// of eight columns of a separate product.
template <int kWidth>
struct FeatureGroupSums {
  WarpSums<kWidth> columns;
  float last[4] = {};

  /// Adds the features of 16 tokens times their ỹ. `y` has ỹ's columns except the last one, and `ends` the last one.
  __device__ void add(const uint32_t (&features)[4], const uint32_t (&y)[kWidth / 16][4], const uint32_t (&ends)[2]) {
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      columns.add(d, features, y[d / 16][0], y[d / 16][1]);
      columns.add(d + 8, features, y[d / 16][2], y[d / 16][3]);
    }
    multiply_add(last[0], last[1], last[2], last[3], features, ends[0], ends[1]);
  }
};

/// The features of one group for the 16 tokens from `k` on, as a left factor: features × tokens.
template <int kWidth>
__device__ void load_features(uint32_t (&features)[4], const TokenTile<kWidth>& tokens, int k,
                              typename FeatureGroups<kWidth>::FeatureGroup feature_group) {
  load_transposed(features,
                  &tokens.x.of[k + lane() / 16 * 8 + lane() % 8][feature_group.entry_tile * 16 + lane() / 8 % 2 * 8]);
  if (feature_group.a == kWidth) return;
  const int token = k + lane() % 4 * 2;  // the lane holds this token and the next, and both 8 tokens further
  const uint32_t low = packed(tokens.x.of[token][feature_group.a], tokens.x.of[token + 1][feature_group.a]);
  const uint32_t high = packed(tokens.x.of[token + 8][feature_group.a], tokens.x.of[token + 9][feature_group.a]);
  features[0] = multiply(features[0], low);
  features[1] = multiply(features[1], low);
  features[2] = multiply(features[2], high);
  features[3] = multiply(features[3], high);
}

/// A factor for 16 tokens from `k` on: `numbers` is the first of eight rows or columns, and the others are 0.
__device__ inline void load_first(uint32_t& low, uint32_t& high, const BFloat16* numbers, int k) {
  const int token = k + lane() % 4 * 2;
  const bool first = lane() / 4 == 0;
  low = first ? packed(numbers[token], numbers[token + 1]) : 0;
  high = first ? packed(numbers[token + 8], numbers[token + 9]) : 0;
}

/// S = Σ_n φ(x_n) ỹ_nᵀ over the tokens of each chunk. A block computes some of the feature groups, and each of its
/// warps a few of these. The number of instructions bounds it; most of them bring factors to the tensor cores.
template <int kWidth, class E, class Source>
__global__ void __launch_bounds__(kMmaThreads, kWidth == 32 ? 3 : 2)
    sum_feature_groups(QuadraticInputs<float, E> in, Source source, FeatureGroups<kWidth> feature_groups,
                       ChunkGroup chunk_group, float* sums) {
  constexpr int kFeatureGroups = kFeatureGroupsOfWarp<kWidth>;
  __shared__ TokenTile<kWidth> token_tiles[2];
  const int64_t tasks = ceil_div(feature_groups.count(), kFeatureGroupsOfBlock<kWidth>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * tasks; index += gridDim.x) {
    const int64_t state_index = index / tasks;
    const int first_feature_group = static_cast<int>(index % tasks) * kFeatureGroupsOfBlock<kWidth> +
                                    static_cast<int>(threadIdx.x) / kWarp * kFeatureGroups;
    typename FeatureGroups<kWidth>::FeatureGroup feature_group[kFeatureGroups];
#pragma unroll
    for (int u = 0; u < kFeatureGroups; ++u)
      feature_group[u] = feature_groups.feature_group(min(first_feature_group + u, feature_groups.count() - 1));
    FeatureGroupSums<kWidth> sum[kFeatureGroups];
    const QuadraticTask<float, E> task(in, chunk_group.head_of(state_index), 1, 1);
    const int64_t first = chunk_group.first_of(state_index),
                  end = min(first + chunk_group.chunk_size, chunk_group.end);
    __syncthreads();  // the previous tiles have been used
    const auto load = [&](int64_t token, int buffer) { source.load(token_tiles[buffer], in, task, token); };
    for_each_step<2, kMmaTile>(first, end, load, [&](int64_t, int buffer) {
      if (first_feature_group >= feature_groups.count()) return;
      const TokenTile<kWidth>& tokens = token_tiles[buffer];
#pragma unroll 1
      for (int k = 0; k < kMmaTile; k += 16) {
        uint32_t y[kWidth / 16][4];
#pragma unroll
        for (int d = 0; d < kWidth; d += 16) {
          load_transposed(y[d / 16], &tokens.y.of[k + lane() % 16][d + lane() / 16 * 8]);
        }
        uint32_t ends[2];
        load_first(ends[0], ends[1], tokens.last, k);
#pragma unroll
        for (int u = 0; u < kFeatureGroups; ++u) {
          uint32_t features[4] = {};
          if (u == 0 && first_feature_group == 0) {  // the constant group
            load_first(features[0], features[2], tokens.one, k);
          } else {
            load_features(features, tokens, k, feature_group[u]);
          }
          sum[u].add(features, y, ends);  // [FAST eq.28] [FAST eq.29]
        }
      }
    });
#pragma unroll
    for (int u = 0; u < kFeatureGroups; ++u) {
      if (first_feature_group + u >= feature_groups.count()) continue;
      float* to =
          sums + state_index * feature_groups.sums() + (first_feature_group + u) * 16 * feature_groups.kColumns;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float* row = to + (lane() / 4 + 8 * r) * feature_groups.kColumns;
#pragma unroll
        for (int c = 0; c < kWidth / 4; ++c) row[WarpSums<kWidth>::column(c)] = sum[u].columns.of[r][c];
        if (lane() % 4 == 0) row[kWidth] = sum[u].last[2 * r];
      }
    }
  }
}

}  // namespace linnet::cuda
