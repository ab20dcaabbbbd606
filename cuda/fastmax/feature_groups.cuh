#pragma once

#include <linnet/cuda/attention/mma_tiles.cuh>
#include <linnet/cuda/fastmax/states.cuh>

/// The features of Fastmax in its factorised form (Gerami et al. 2024, section 2.4) as factors of tensor cores, made
/// in a warp's registers of what mma.cuh brings there; and their sums over tokens. For heads of up to kWidth columns.
///
/// With x̃ = [x; 1], f(q·k) = a0 + a1·q·k + a2·(q·k)² is a weighted sum of (q̃_a q̃_b)(k̃_a k̃_b) over pairs (a, b). A
/// unit is 16 such features, of one entry a and a block of entries b: the factor that a warp has of the block anyway,
/// times x_a. Units of two entries of x are summed for blocks up to a's own. One of another block stands for its
/// mirror too; of a's own block all pairs are there. a = kWidth, the 1, has the linear units, and beside itself the
/// constant one, which comes first.

namespace linnet::cuda {

template <int kWidth>
struct FeatureGroups {
  static constexpr int kBlocks = kWidth / 16;

  float a0, a1, a2;

  /// A unit's entry a, and its block b.
  struct FeatureGroup {
    int a, block;
  };

  /// The first entry a beside a block, from where on they go up to kWidth.
  __host__ __device__ int first(int block) const { return a2 == 0 ? kWidth : block * 16; }
  /// Where the units of a block begin.
  __host__ __device__ int begin(int block) const {
    return 1 + (a2 == 0 ? block : block * (kWidth + 1) - 8 * block * (block - 1));
  }
  __host__ __device__ int count() const { return begin(kBlocks); }
  __device__ FeatureGroup feature_group(int index) const {
    if (index == 0) return {kWidth, kBlocks};
    int block = kBlocks - 1;
    while (begin(block) > index) --block;
    return {first(block) + index - begin(block), block};
  }
  __device__ int index(FeatureGroup feature_group) const {
    return begin(feature_group.block) + feature_group.a - first(feature_group.block);
  }

  /// Sums of a state in float: [unit, feature, column], of which the last column is the denominator's.
  static constexpr int kColumns = kWidth + 1;
  __host__ __device__ int sums() const { return count() * 16 * kColumns; }
};

/// Units of a warp, as many as have their sums in registers.
template <int kWidth>
constexpr int kUnitsOfWarp = kWidth == 32 ? 4 : 3;
template <int kWidth>
constexpr int kFeatureGroupsOfBlock = kUnitsOfWarp<kWidth> * kMmaThreads / kWarp;

/// Both numbers of a pair times those of another.
__device__ inline uint32_t multiply(uint32_t pair, uint32_t factor) {
  const auto number = [](uint32_t bits) { return __ushort_as_bfloat16(static_cast<unsigned short>(bits)); };
  const __nv_bfloat162 product = __hmul2(__halves2bfloat162(number(pair & 0xffff), number(pair >> 16)),
                                         __halves2bfloat162(number(factor & 0xffff), number(factor >> 16)));
  return packed(product.x, product.y);
}

/// Some tokens of one side: x̃ and what their features are summed up with, ỹ. 0 for padding and for queries that see
/// no key.
template <int kWidth>
struct TokenTile {
  RowTile<kWidth> x, y;
  BFloat16 one[kMmaTile], last[kMmaTile];  ///< of x̃ and ỹ
};

/// Keys, with ỹ = [v; 1].
template <class E>
struct KeySide {
  static constexpr bool kReverse = false;  ///< summed up from the first on

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

/// Queries, with ỹ = [d_o; −delta] / g: 0 for one that sees no key, or that is not there.
template <class E>
struct QuerySide {
  static constexpr bool kReverse = true;
  static constexpr int kStrip = 16 / sizeof(E);  ///< columns that a thread loads together, where rows are strips
  QuadraticCotangents<float, E> from;

  template <int kWidth>
  __device__ void load(TokenTile<kWidth>& tile, const Quadratic<float, E>& in, const QuadraticTask<float, E>& task,
                       int64_t first) const {
    static_assert(kMmaThreads == 2 * kMmaTile, "two threads for each query");
    const Rows<const E> q = task.queries(in, in.q), d_o = task.queries(in, from.d_o);
    load_rows(tile.x, q, first);
    const int i = static_cast<int>(threadIdx.x) / 2;
    const bool there = q.has(first + i);
    const QueryFactors<float> factors = query_factors(in, from, task.head, first + i);
    const float inverse = factors.denominator;
    const int half = static_cast<int>(threadIdx.x) % 2;
    const E* row = d_o.data + (first + i) * d_o.stride;
    if (d_o.width == kWidth && d_o.in_strips(kStrip)) {
#pragma unroll
      for (int c = half * kStrip; c < kWidth; c += 2 * kStrip) {
        Strip<E, kStrip> g = {};
        if (inverse != 0) g = *reinterpret_cast<const Strip<E, kStrip>*>(row + c);
        Strip<BFloat16, kStrip> y;
#pragma unroll
        for (int e = 0; e < kStrip; ++e) y.of[e] = BFloat16(static_cast<float>(g.of[e]) * inverse);
        *reinterpret_cast<Strip<BFloat16, kStrip>*>(&tile.y.of[i][c]) = y;
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
    __syncthreads();
  }
};

/// What a warp sums of one unit: features × columns, and the last column beside them as the first of eight.
template <int kWidth>
struct FeatureGroupSums {
  WarpSums<kWidth> columns;
  float last[4] = {};

  /// += the features of 16 tokens times their ỹ, which are `y`'s columns and `ends`.
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
                              typename FeatureGroups<kWidth>::FeatureGroup feature_group) {
  load_transposed(features,
                  &tokens.x.of[k + lane() / 16 * 8 + lane() % 8][feature_group.block * 16 + lane() / 8 % 2 * 8]);
  if (feature_group.a == kWidth) return;
  const int token = k + lane() % 4 * 2;  // and the next; both again 8 further
  const uint32_t low = packed(tokens.x.of[token][feature_group.a], tokens.x.of[token + 1][feature_group.a]);
  const uint32_t high = packed(tokens.x.of[token + 8][feature_group.a], tokens.x.of[token + 9][feature_group.a]);
  features[0] = multiply(features[0], low);
  features[1] = multiply(features[1], low);
  features[2] = multiply(features[2], high);
  features[3] = multiply(features[3], high);
}

/// Of 16 tokens from `k` on, numbers as the first of eight rows or columns, of which the others are 0.
__device__ inline void load_first(uint32_t& low, uint32_t& high, const BFloat16* numbers, int k) {
  const int token = k + lane() % 4 * 2;
  const bool first = lane() / 4 == 0;
  low = first ? packed(numbers[token], numbers[token + 1]) : 0;
  high = first ? packed(numbers[token + 8], numbers[token + 9]) : 0;
}

/// S = Σ_n φ(x_n) ỹ_nᵀ over the tokens of each chunk: a block for some units, a warp for a few of them. What
/// bounds it is the count of instructions, most of which bring factors to the tensor cores.
template <int kWidth, class E, class Side>
__global__ void __launch_bounds__(kMmaThreads, kWidth == 32 ? 3 : 2)
    sum_feature_groups(Quadratic<float, E> in, Side side, FeatureGroups<kWidth> feature_groups,
                       ChunkGroup chunk_group, float* sums) {
  constexpr int kFeatureGroups = kUnitsOfWarp<kWidth>;
  __shared__ TokenTile<kWidth> tokens;
  const int64_t groups = ceil_div(feature_groups.count(), kFeatureGroupsOfBlock<kWidth>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * groups; index += gridDim.x) {
    const int64_t at = index / groups;
    const int first_feature_group = static_cast<int>(index % groups) * kFeatureGroupsOfBlock<kWidth> +
                                    static_cast<int>(threadIdx.x) / kWarp * kFeatureGroups;
    typename FeatureGroups<kWidth>::FeatureGroup feature_group[kFeatureGroups];
#pragma unroll
    for (int u = 0; u < kFeatureGroups; ++u)
      feature_group[u] = feature_groups.feature_group(min(first_feature_group + u, feature_groups.count() - 1));
    FeatureGroupSums<kWidth> sum[kFeatureGroups];
    const QuadraticTask<float, E> task(in, chunk_group.head_of(at), 1, 1);
    const int64_t first = chunk_group.first_of(at), end = min(first + chunk_group.chunk, chunk_group.end);
    for (int64_t token = first; token < end; token += kMmaTile) {
      __syncthreads();  // the last tile has been used
      side.load(tokens, in, task, token);
      if (first_feature_group >= feature_groups.count()) continue;
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
          if (u == 0 && first_feature_group == 0) {  // the constant one
            load_first(features[0], features[2], tokens.one, k);
          } else {
            load_features(features, tokens, k, feature_group[u]);
          }
          sum[u].add(features, y, ends);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kFeatureGroups; ++u) {
      if (first_feature_group + u >= feature_groups.count()) continue;
      float* to = sums + at * feature_groups.sums() + (first_feature_group + u) * 16 * feature_groups.kColumns;
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
