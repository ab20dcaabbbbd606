#pragma once

#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/tile.cuh>

/// The features of Fastmax in its factorised form (Gerami et al. 2024, section 2.4), tile by tile. With vectors
/// x̃ = [x; 1] for queries and keys alike,
///   f(x·y) = a0 + a1·x·y + a2·(x·y)² = Σ w (x̃_a x̃_b)(ỹ_a ỹ_b).
/// Linear tiles hold the entries of x̃ itself. Quadratic tiles hold the products of kLeft entries a and kRight entries
/// b, for blocks up to the diagonal of that square: a block off it has weight 2·a2, for the one that it mirrors; one
/// on it holds both x_a·x_b and x_b·x_a, each with weight a2. So no feature is a case of its own, and all features of
/// a warp's part of a tile have one a.

namespace linnet::cuda {

constexpr int kLeft = 8;
template <class T>
constexpr int kRight = kTile<T> / kLeft;

/// What all kernels read. Tokens are counted by their positions, from the first query's or key's on.
template <class T>
struct Factorised {
  int64_t width, positions;  ///< positions of a head: a multiple of 64, of which some may hold no token
  int64_t linear_tiles, tiles;
  T a0, a1, a2;
  bool causal;
  FastmaxDropout dropout;
  int keep_of_256;
  bool shared_denominator;

  /// Rows of x̃, and of the columns of a state.
  __host__ __device__ int64_t rows() const { return width + 1; }
  int64_t state_size() const { return tiles * kTile<T> * rows(); }
  __host__ __device__ bool drops() const { return keep_of_256 < 256; }
  /// Whether weights inside of a chunk are made of dropped features.
  __host__ __device__ bool drops_features() const { return drops() && dropout != FastmaxDropout::token; }
  /// The blocks of entries a beside the block of entries from `b` on.
  __host__ __device__ static int64_t blocks_beside(int64_t b) { return b / kLeft + 1; }

  /// Sets the tiles; order 1 has linear ones only.
  void count_tiles() {
    linear_tiles = tiles = ceil_div(rows(), kTile<T>);
    for (int64_t b = 0; a2 != 0 && b < width; b += kRight<T>) tiles += blocks_beside(b);
  }
};

/// Queries or keys of all heads, entry by entry along rows of positions; 0 where there is no token.
template <class T>
struct Side {
  T* x;        ///< x̃ [heads, width + 1, positions]: standardised if need be, the last row 1 where there is a token
  T* y;        ///< ỹ, likewise: keys have [v; 1], queries the cotangents [∂L/∂o; −∂L/∂o·o] / g
  T* inverse;  ///< [heads, positions]: 1 / std(x)
  T* factor;   ///< [heads, positions]: of dropout of whole tokens, else null
  LiveKey key;
  int64_t count, shift;  ///< tokens, and the position of the first

  __device__ const T* x_at(const Factorised<T>& in, int64_t head, int64_t position) const {
    return x + head * in.rows() * in.positions + position;
  }
  __device__ const T* y_at(const Factorised<T>& in, int64_t head, int64_t position) const {
    return y + head * in.rows() * in.positions + position;
  }
  __device__ T factor_at(const Factorised<T>& in, int64_t head, int64_t position) const {
    return factor == nullptr ? T{1} : factor[head * in.positions + position];
  }
};

/// Tile `index` of the features: feature `slot` is x̃_b+slot (linear), or x_a'·x_b' with a' = a + slot / kRight and b'
/// = b + slot % kRight; 0 where there is no such entry.
template <class T>
struct FeatureTile {
  const Factorised<T>& in;
  int64_t index, a = 0, b = 0;
  bool linear;

  __device__ FeatureTile(const Factorised<T>& in_, int64_t index_)
      : in(in_), index(index_), linear(index_ < in_.linear_tiles) {
    if (linear) {
      b = index * kTile<T>;
      return;
    }
    a = index - in.linear_tiles;
    for (; a >= in.blocks_beside(b); b += kRight<T>) a -= in.blocks_beside(b);
    a *= kLeft;
  }

  __device__ int64_t row(int slot) const { return index * kTile<T> + slot; }
  __device__ bool is_last_beside() const { return a / kLeft == b / kLeft; }

  /// Of the token n behind `x`.
  __device__ T feature(const T* x, int slot, int64_t n) const {
    if (linear) return entry(x, b + slot, n, in.rows());
    return entry(x, a + slot / kRight<T>, n, in.width) * entry(x, b + slot % kRight<T>, n, in.width);
  }
  __device__ T left(const T* x, int slot, int64_t n) const { return entry(x, a + slot / kRight<T>, n, in.width); }
  __device__ T right(const T* x, int slot, int64_t n) const { return entry(x, b + slot % kRight<T>, n, in.width); }

  /// w, as it is and for features that both sides' dropout went over, which left their scale to it.
  __device__ T weight(int slot) const {
    if (linear) return is_constant(slot) ? in.a0 : in.a1;
    return is_last_beside() ? in.a2 : 2 * in.a2;
  }
  __device__ T dropped_weight(int slot) const {
    const T scale = drops(slot) ? static_cast<T>(256.0 / in.keep_of_256) : T{1};
    return weight(slot) * scale * scale;
  }

  /// Whether dropout goes over a feature; and its number, as backend.h counts them.
  __device__ bool drops(int slot) const {
    if (!in.drops()) return false;
    if (in.dropout == FastmaxDropout::token) return !is_constant(slot);
    return in.dropout == FastmaxDropout::standard || !linear;
  }
  __device__ int64_t number(int slot) const {
    if (linear) return is_constant(slot) ? 0 : b + slot + 1;
    const int64_t i = a + slot / kRight<T>, j = b + slot % kRight<T>, first = min(i, j) + 1;
    return first * in.rows() - first * (first - 1) / 2 + max(i, j) + 1 - first;
  }

 private:
  __device__ bool is_constant(int slot) const { return linear && b + slot == in.width; }
  __device__ T entry(const T* x, int64_t row, int64_t n, int64_t rows) const {
    return row < rows ? x[row * in.positions + n] : T{0};
  }
};

/// Random bytes that decide which features of a tile of tokens stay: [slot, token], four tokens to a word.
template <class T>
struct FeatureMask {
  uint32_t words[kTile<T>][kTile<T> / 4];

  /// 16 bytes of the stream (see Backend::fastmax) a thread; zeros, which always stay, where nothing is dropped.
  __device__ void draw(const FeatureTile<T>& tile, RandomKey key, int64_t head, int64_t position) {
    constexpr int kBlocks = kTile<T> / 16;
    const bool tokens = tile.in.dropout == FastmaxDropout::token;
    const int64_t features = tokens ? 1 : count_features(tile.in);
    for (int e = static_cast<int>(threadIdx.x); e < kTile<T> * kBlocks; e += kThreads) {
      const int slot = e / kBlocks, part = e % kBlocks;
      const int64_t at = head * tile.in.positions + position + part * 16;
      PhiloxBlock block = {};
      if (tile.drops(slot)) {
        const int64_t line = at / 64 * features + (tokens ? 0 : tile.number(slot));
        block = philox(key, static_cast<uint64_t>(line * 4 + at % 64 / 16));
      }
#pragma unroll
      for (int w = 0; w < 4; ++w) words[slot][part * 4 + w] = block.word[w];
    }
  }

  __device__ bool stays(const FeatureTile<T>& tile, int slot, int n) const {
    return static_cast<int>(words[slot][n / 4] >> (n % 4 * 8) & 255) < tile.in.keep_of_256;
  }

 private:
  __device__ static int64_t count_features(const Factorised<T>& in) {
    return in.a2 == 0 ? in.rows() : in.rows() * (in.rows() + 1) / 2;
  }
};

/// Shared memory of a block: within the 48 KB that every GPU grants, 47 KB for float, 27 KB for double and all of it
/// for bfloat16.
template <class T, class S>
struct FeatureTiles : Tiles<S> {
  FeatureMask<T> mask;
};

/// tile[r][c] = f(r, c), neighbours going along rows …
template <class S, class F>
__device__ void fill(S (*tile)[kPitch<S>], int rows, int columns, F f) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += kThreads) {
    const int r = e / columns, c = e % columns;
    tile[r][c] = f(r, c);
  }
}

/// … or down columns, a strip of each row at a time so that they use all banks.
template <class S, class F>
__device__ void fill_columns(S (*tile)[kPitch<S>], int rows, int columns, F f) {
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns / kPart<S>; e += kThreads) {
    const int r = e % rows, c = e / rows * kPart<S>;
    Strip<S> strip;
#pragma unroll
    for (int i = 0; i < kPart<S>; ++i) strip.of[i] = f(r, c + i);
    *reinterpret_cast<Strip<S>*>(&tile[r][c]) = strip;
  }
}

/// xᵀ·y for a tile of tokens each, from `rows` of their entries. All of the block must call it; it begins with a
/// barrier.
template <class T, class S>
__device__ ThreadTile<T> products_of_entries(const Factorised<T>& in, Tiles<S>& tiles, const T* x, const T* y,
                                             int64_t rows) {
  ThreadTile<T> part;
  for (int64_t first = 0; first < rows; first += kDepth) {
    const auto load = [&](S(*slice)[kPitch<S>], const T* from) {
      fill(slice, kDepth, kTile<T>,
           [&](int r, int n) { return first + r < rows ? from[(first + r) * in.positions + n] : T{0}; });
    };
    __syncthreads();  // the last slices have been used
    load(tiles.slice_a, x);
    load(tiles.slice_b, y);
    __syncthreads();
    add_product(part, tiles.slice_a, tiles.slice_b, kDepth);
  }
  return part;
}

}  // namespace linnet::cuda
