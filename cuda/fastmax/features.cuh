#pragma once

#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/tile.cuh>

/// The features φ(x) of Fastmax in its factorised form (Gerami et al. 2024, section 2.4), tile by tile. With x̃ = [x;
/// 1] for queries and keys alike,
///   f(x·y) = a0 + a1·x·y + a2·(x·y)² = Σ w (x̃_a x̃_b)(ỹ_a ỹ_b).
/// A tile holds kTile features. Linear tiles hold the entries of x̃ itself. A quadratic tile holds the products
/// x_a·x_b of kLeft entries a and kRight entries b. Only tiles up to the diagonal exist. A tile off the diagonal has
/// weight 2·a2, because it also counts for its mirror image. A tile on the diagonal holds both x_a·x_b and x_b·x_a,
/// each with weight a2. So no feature needs a special case, and all features of a warp's thread tiles share one a.

namespace linnet::cuda {

constexpr int kLeft = 8;
template <class T>
constexpr int kRight = kTile<T> / kLeft;

/// The parameters of all kernels. Position 0 is the first query or the first key, whichever is earlier.
template <class T>
struct FactorisedParams {
  int64_t width, positions;  ///< the positions of a head: a multiple of 64; some may have no token
  int64_t linear_tiles, tiles;
  T a0, a1, a2;
  bool causal;
  FastmaxDropout dropout;
  int keep_of_256;
  bool shared_denominator;

  /// The number of entries of x̃, which is also the number of columns of a state.
  __host__ __device__ int64_t entries() const { return width + 1; }
  int64_t state_size() const { return tiles * kTile<T> * entries(); }
  __host__ __device__ bool drops() const { return keep_of_256 < 256; }
  /// Whether intra-chunk weights are sums of dropped features.
  __host__ __device__ bool drops_features() const { return drops() && dropout != FastmaxDropout::token; }
  /// The number of tiles with the kRight entries from `b` on.
  __host__ __device__ static int64_t tiles_beside(int64_t b) { return b / kLeft + 1; }

  /// Sets the numbers of tiles. Order 1 has linear tiles only.
  void count_tiles() {
    linear_tiles = tiles = ceil_div(entries(), kTile<T>);
    for (int64_t b = 0; a2 != 0 && b < width; b += kRight<T>) tiles += tiles_beside(b);
  }
};

/// The queries or the keys of all heads, transposed: a row for each entry and a column for each position; 0 at
/// positions without a token.
template <class T>
struct LoadedSide {
  T* x;        ///< x̃ [heads, width + 1, positions], after the RowMap; the last row is 1 where there is a token
  T* y;        ///< ỹ, of the same shape: for keys [v; 1], for queries the cotangents [G; −G·o] / g with G = ∂L/∂o
  T* inverse;  ///< [heads, positions]: 1 / std(x)
  T* factor;   ///< [heads, positions]: factors of dropout of whole tokens; null without such dropout
  LiveKey key;
  int64_t count, shift;  ///< the number of tokens; the position of the first token

  /// Whether any of the `size` positions from `first` on has a token.
  __device__ bool has_any(int64_t first, int64_t size) const { return first + size > shift && first < shift + count; }
  __device__ const T* x_at(const FactorisedParams<T>& in, int64_t head, int64_t position) const {
    return x + head * in.entries() * in.positions + position;
  }
  __device__ const T* y_at(const FactorisedParams<T>& in, int64_t head, int64_t position) const {
    return y + head * in.entries() * in.positions + position;
  }
  __device__ T factor_at(const FactorisedParams<T>& in, int64_t head, int64_t position) const {
    return factor == nullptr ? T{1} : factor[head * in.positions + position];
  }
};

/// Tile `index` of the features. Its feature `slot` is x̃_{b + slot} in a linear tile, and x_a'·x_b' in a quadratic
/// one, with a' = a + slot / kRight and b' = b + slot % kRight. Features are 0 if x̃ does not have these entries.
template <class T>
struct FeatureTile {
  const FactorisedParams<T>& in;
  int64_t index, a = 0, b = 0;
  bool linear;

  __device__ FeatureTile(const FactorisedParams<T>& in_, int64_t index_)
      : in(in_), index(index_), linear(index_ < in_.linear_tiles) {
    if (linear) {
      b = index * kTile<T>;
      return;
    }
    a = index - in.linear_tiles;
    for (; a >= in.tiles_beside(b); b += kRight<T>) a -= in.tiles_beside(b);
    a *= kLeft;
  }

  __device__ int64_t row(int slot) const { return index * kTile<T> + slot; }
  __device__ bool is_diagonal() const { return a / kLeft == b / kLeft; }

  /// The feature of the n-th token from `x` on.
  __device__ T feature(const T* x, int slot, int64_t n) const {
    if (linear) return entry(x, b + slot, n, in.entries());
    return entry(x, a + slot / kRight<T>, n, in.width) * entry(x, b + slot % kRight<T>, n, in.width);
  }
  __device__ T left(const T* x, int slot, int64_t n) const { return entry(x, a + slot / kRight<T>, n, in.width); }
  __device__ T right(const T* x, int slot, int64_t n) const { return entry(x, b + slot % kRight<T>, n, in.width); }

  /// The weight w of a feature. `dropped_weight` includes the scale of both sides' dropout, because masked features
  /// are not scaled themselves.
  __device__ T weight(int slot) const {
    if (linear) return is_constant(slot) ? in.a0 : in.a1;
    return is_diagonal() ? in.a2 : 2 * in.a2;
  }
  __device__ T dropped_weight(int slot) const {
    const T scale = drops(slot) ? static_cast<T>(256.0 / in.keep_of_256) : T{1};
    return weight(slot) * scale * scale;
  }

  /// Whether dropout applies to a feature, and the feature's number in the order of Backend::fastmax.
  __device__ bool drops(int slot) const {
    if (!in.drops()) return false;
    if (in.dropout == FastmaxDropout::token) return !is_constant(slot);
    return in.dropout == FastmaxDropout::standard || !linear;
  }
  __device__ int64_t number(int slot) const {
    if (linear) return is_constant(slot) ? 0 : b + slot + 1;
    const int64_t i = a + slot / kRight<T>, j = b + slot % kRight<T>, first = min(i, j) + 1;
    return first * in.entries() - first * (first - 1) / 2 + max(i, j) + 1 - first;
  }

 private:
  __device__ bool is_constant(int slot) const { return linear && b + slot == in.width; }
  __device__ T entry(const T* x, int64_t row, int64_t n, int64_t rows) const {
    return row < rows ? x[row * in.positions + n] : T{0};
  }
};

/// The random bytes that decide which features of a tile of tokens are kept: [slot, token], with four tokens in a
/// word.
template <class T>
struct FeatureMask {
  uint32_t words[kTile<T>][kTile<T> / 4];

  /// Draws 16 bytes of the stream (see Backend::fastmax) at a time. Features without dropout get zeros, so that they
  /// are always kept.
  __device__ void draw(const FeatureTile<T>& tile, RandomKey key, int64_t head, int64_t position) {
    constexpr int kDraws = kTile<T> / 16;  // Philox blocks for the tokens of a feature
    const bool tokens = tile.in.dropout == FastmaxDropout::token;
    const int64_t features = tokens ? 1 : count_features(tile.in);
    for (int e = static_cast<int>(threadIdx.x); e < kTile<T> * kDraws; e += kThreads) {
      const int slot = e / kDraws, draw = e % kDraws;
      const int64_t at = head * tile.in.positions + position + draw * 16;
      PhiloxBlock block = {};
      if (tile.drops(slot)) {
        const int64_t line = at / 64 * features + (tokens ? 0 : tile.number(slot));
        block = philox(key, static_cast<uint64_t>(line * 4 + at % 64 / 16));
      }
#pragma unroll
      for (int w = 0; w < 4; ++w) words[slot][draw * 4 + w] = block.word[w];
    }
  }

  __device__ bool keeps(const FeatureTile<T>& tile, int slot, int n) const {
    return static_cast<int>(words[slot][n / 4] >> (n % 4 * 8) & 255) < tile.in.keep_of_256;
  }

 private:
  __device__ static int64_t count_features(const FactorisedParams<T>& in) {
    return in.a2 == 0 ? in.entries() : in.entries() * (in.entries() + 1) / 2;
  }
};

/// Shared memory of a block: 47 KB for float, 27 KB for double, and for bfloat16 48 KB, which is the most that every
/// GPU allows.
template <class T, class S>
struct SharedFeatureTiles : SharedTiles<S> {
  FeatureMask<T> mask;
};

/// tile[r][c] = f(r, c); neighbouring threads write along rows.
template <class S, class F>
__device__ void fill(S (*tile)[kPitch<S>], int rows, int columns, F f) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += kThreads) {
    const int r = e / columns, c = e % columns;
    tile[r][c] = f(r, c);
  }
}

/// tile[r][c] = f(r, c); neighbouring threads write down columns, a pack of each row at a time, to use all banks.
template <class S, class F>
__device__ void fill_columns(S (*tile)[kPitch<S>], int rows, int columns, F f) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns / kThreadTile<S>; e += kThreads) {
    const int r = e % rows, c = e / rows * kThreadTile<S>;
    PackOf<S> pack;
#pragma unroll
    for (int i = 0; i < kThreadTile<S>; ++i) pack.of[i] = f(r, c + i);
    *reinterpret_cast<PackOf<S>*>(&tile[r][c]) = pack;
  }
}

/// xᵀ·y for a tile of tokens of x and one of y, over `rows` of their entries. Begins with a barrier. All threads of
/// the block must call it.
template <class T, class S>
__device__ ThreadTile<T> products_of_entries(const FactorisedParams<T>& in, SharedTiles<S>& tiles, const T* x,
                                             const T* y, int64_t rows) {
  ThreadTile<T> sum;
  for (int64_t first = 0; first < rows; first += kDepth) {
    const auto load = [&](S(*panel)[kPitch<S>], const T* from) {
      fill(panel, kDepth, kTile<T>,
           [&](int r, int n) { return first + r < rows ? from[(first + r) * in.positions + n] : T{0}; });
    };
    __syncthreads();  // the previous panels have been used
    load(tiles.panel_a, x);
    load(tiles.panel_b, y);
    __syncthreads();
    add_product(sum, tiles.panel_a, tiles.panel_b, kDepth);
  }
  return sum;
}

}  // namespace linnet::cuda
