#pragma once

#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/fastmax/sides.h>
#include <linnet/ops/cpu/fastmax/states.h>

namespace linnet::cpu::LINNET_ISA {

/// c = a·b, or c += a·b, for `rows` rows of a block of features or tokens. With AVX-512, OpenBLAS multiplies small
/// matrices in place, at more than the rate of our tiles; elsewhere it copies them first, and takes a third longer.
template <class T>
void block_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<T> c, bool add) {
#if defined(__AVX512F__)
  const bool transposed = a.column != 1;
  gemm<T>(transposed, false, rows, width, depth, 1, a.data, transposed ? a.column : a.row, b.data, b.stride,
          add ? 1 : 0, c.data, c.stride);
#else
  tile_product<T>(rows, width, depth, a, b, c, add);
#endif
}

/// What Fastmax does with a chunk by way of packed features, of second order and with any dropout. It multiplies a
/// block of features of a tile of tokens at a time.
template <class T>
class FeatureChunks {
 public:
  /// A causal chunk is one block.
  static constexpr bool kLong = false;

  FeatureChunks(const Inputs& in, const Sides<T>& sides)
      : in_(in), features_(sides.features()), sides_(sides), width_(in.width()), weights_(features_.count()) {
    features_.weigh(in.params, weights_.data());
  }

  /// The weight of each row of a state.
  const T* weights() const { return weights_.data(); }

  /// state = Σ φ(x_n) [y_n, t_n]ᵀ over a chunk.
  void sum(const Chunk& chunk, State<T> state, const Side& side) const {
    Terms<T> terms(width_, in_.block(), false);
    FeatureTile<T> tile = sides_.tile_of(side, chunk.head);
    clear(features_, state);
    for_each_block(chunk, side.end, [&](int64_t first, int64_t size) {
      sides_.load(side, chunk.head, first, size, terms);
      features_.for_each_block([&](const FeatureBlock& block) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(terms.x, at, sides_.tile_at(first + at), block);
          add(tile, at, block, terms, state);
        }
      });
    });
  }

  /// o = F / g for the queries of a chunk (eqs. 19 and 26–27, causal 32–33). `sum_of_keys`, where not null, becomes
  /// the sum over its keys.
  void attend(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& o, const View& g,
              const State<T>* sum_of_keys) const {
    if (sum_of_keys != nullptr) sum(chunk, *sum_of_keys, other);
    const int64_t most = in_.block();
    const bool causal = in_.params.causal, dropped = causal && in_.drops_features();
    Terms<T> queries(width_, most, false), keys(width_, causal ? most : 0, false);
    const Scratch<T> sums(most * (width_ + 1)), weights(dropped ? kTile * kTile : 0);
    T *numerators = sums.data(), *denominators = numerators + most * width_;
    FeatureTile<T> tile = sides_.tile_of(side, chunk.head), other_tile = sides_.tile_of(other, chunk.head);
    const IntraChunk<T> interior(in_.params, true, queries, keys, dropped, weights.data());
    for_each_block(chunk, side.end, [&](int64_t first, int64_t size) {
      sides_.load(side, chunk.head, first, size, queries);
      if (causal) sides_.load(other, chunk.head, first, size, keys);
      std::fill_n(denominators, size, T{0});
      features_.for_each_block([&](const FeatureBlock& block) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(queries.x, at, sides_.tile_at(first + at), block);
          tile.make_and_weigh(state.z + block.first, denominators + at);
          apply(tile, block, state, {numerators + at * width_, width_});
          if (!dropped) continue;
          other_tile.set(keys.x, at, sides_.tile_at(first + at), block);
          other_tile.make(weights_.data() + block.first);
          multiply_features(other_tile, tile, block, weights.data());
        }
      });
      if (causal) interior.attend(numerators, denominators);
      store(chunk.head, first - side.causal_offset, size, numerators, denominators, o, g);
    });
  }

  /// The gradients of a chunk's queries, or of its keys and values, from the sum over the other side.
  void differentiate(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& dx_view,
                     const View* dy_view, const ChunkSums<T>& sums) const {
    if (sums.other != nullptr) sum(chunk, *sums.other, other);
    const int64_t most = in_.block();
    const bool causal = in_.params.causal, dropped = causal && in_.drops_features();
    Terms<T> terms(width_, most, true), others(width_, causal ? most : 0, false);
    const Scratch<T> dphi(features_.capacity() * kTile), dx((width_ + 1) * most), dy_room(width_ * most);
    const Scratch<T> weights(dropped && !side.queries ? kTile * kTile : 0), dweights(dropped ? kTile * kTile : 0);
    FeatureTile<T> tile = sides_.tile_of(side, chunk.head), other_tile = sides_.tile_of(other, chunk.head);
    const IntraChunk<T> interior(in_.params, side.queries, terms, others, dropped, weights.data());
    const int64_t b = chunk.head / dx_view.shape[1], h = chunk.head % dx_view.shape[1];
    if (sums.own != nullptr) clear(features_, *sums.own);
    for_each_block(chunk, side.end, [&](int64_t first, int64_t size) {
      sides_.load(side, chunk.head, first, size, terms);
      const Rows<T> dy_rows = dy_view != nullptr ? head_of<T>(*dy_view, b, h) : Rows<T>{};
      const Rows<T> dy = dy_view != nullptr ? terms.x.results(dy_rows, dy_room.data()) : Rows<T>{};
      if (causal) sides_.load(other, chunk.head, first, size, others);
      if (dropped) interior.dropped_cotangents(dweights.data());
      std::fill_n(dx.data(), (width_ + 1) * size, T{0});
      features_.for_each_block([&](const FeatureBlock& block) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(terms.x, at, sides_.tile_at(first + at), block);
          block_product<T>(block.count, kTile, width_, {state.s + block.first * width_, width_, 1},
                           {terms.y_columns + at, size}, {dphi.data(), kTile}, false);
          if (dy_view != nullptr) {
            tile.make();
            apply(tile, block, state, dy.from(at));
          }
          if (sums.own != nullptr) add(tile, at, block, terms, *sums.own);
          if (dropped) {
            other_tile.set(others.x, at, sides_.tile_at(first + at), block);
            other_tile.make(weights_.data() + block.first);
            block_product<T>(block.count, kTile, kTile, {other_tile.data(), kTile, 1}, {dweights.data(), kTile},
                             {dphi.data(), kTile}, true);
            if (!side.queries) multiply_features(other_tile, tile, block, weights.data());
          }
          tile.add_gradients(dphi.data(), state.z + block.first, terms.t + at, dx.data());
        }
      });
      if (causal) interior.differentiate(dx.data(), dy);
      terms.x.store_gradients(dx.data(), head_of<T>(dx_view, b, h));
      if (dy_view != nullptr) terms.x.store(dy, dy_rows);
    });
  }

 private:
  /// Calls `f(first, size)` for the blocks of a chunk, up to position `end`.
  template <class F>
  void for_each_block(const Chunk& chunk, int64_t end, F f) const {
    const int64_t behind = std::min(chunk.first + chunk.size, end);
    for (int64_t first = chunk.first; first < behind; first += in_.block()) {
      f(first, std::min(in_.block(), round_up(behind - first, kTile)));
    }
  }

  /// state += φ(x_n) [y_n, t_n]ᵀ for the tile of the tokens from `at` on.
  void add(FeatureTile<T>& tile, int64_t at, const FeatureBlock& block, const Terms<T>& terms, State<T> state) const {
    tile.make_and_sum(terms.t + at, state.z + block.first);
    block_product<T>(block.count, width_, kTile, {tile.data(), kTile, 1}, terms.y.from(at),
                     {state.s + block.first * width_, width_}, true);
  }

  /// out [kTile, D] (+)= φᵀ·S
  void apply(const FeatureTile<T>& tile, const FeatureBlock& block, State<T> state, Rows<T> out) const {
    block_product<T>(kTile, width_, block.count, {tile.data(), 1, kTile}, {state.s + block.first * width_, width_},
                     out, block.first > 0);
  }

  /// weights (+)= φ(others)ᵀ·φ(own)
  void multiply_features(const FeatureTile<T>& others, const FeatureTile<T>& own, const FeatureBlock& block,
                         T* weights) const {
    block_product<T>(kTile, kTile, block.count, {others.data(), 1, kTile}, {own.data(), kTile}, {weights, kTile},
                     block.first > 0);
  }

  void store(int64_t head, int64_t first, int64_t size, const T* numerators, const T* denominators, const View& o,
             const View& g) const {
    const int64_t b = head / o.shape[1], count = o.shape[2];
    const Rows<T> out = head_of<T>(o, b, head % o.shape[1]);
    for (int64_t n = 0; n < size; ++n) {
      const int64_t i = first + n;
      if (i < 0 || i >= count) continue;
      const T inverse = denominators[n] != 0 ? 1 / denominators[n] : T{0};
      const T* row = numerators + n * width_;
      T* to = out[i];
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) to[d] = row[d] * inverse;
      data<T>(g)[head * count + i] = denominators[n];
    }
  }

  const Inputs& in_;
  const Features& features_;
  const Sides<T>& sides_;
  int64_t width_;
  Scratch<T> weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
