#pragma once

#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/fastmax/states.h>
#include <linnet/ops/cpu/fastmax/token_loader.h>

namespace linnet::cpu::LINNET_ISA {

/// c = a·b, or c += a·b, for the features or weights of a tile of tokens. With AVX-512, OpenBLAS multiplies small
/// matrices in place, faster than `tile_product`; elsewhere it copies them first, and takes a third longer.
template <class T>
void feature_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<T> c, bool add) {
#if defined(__AVX512F__)
  const bool transposed = a.column != 1;
  gemm<T>(transposed, false, rows, width, depth, 1, a.data, transposed ? a.column : a.row, b.data, b.stride,
          add ? 1 : 0, c.data, c.stride);
#else
  tile_product<T>(rows, width, depth, a, b, c, add);
#endif
}

/// One chunk of Fastmax, computed with packed features, of first or second order, with any dropout. Each matrix
/// product takes a range of features of a tile of tokens.
template <class T>
class FeatureChunks {
 public:
  /// A causal chunk is one subchunk: its quadratic form covers all of it.
  static constexpr bool kLong = false;

  FeatureChunks(const FastmaxInputs& in, const TokenLoader<T>& loader)
      : in_(in), features_(loader.features()), loader_(loader), width_(in.width()), weights_(features_.count()) {
    features_.weigh(in.params, weights_.data());
  }

  /// The weight of each row of a state.
  const T* weights() const { return weights_.data(); }

  /// state = Σ φ(x_n) [y_n, t_n]ᵀ over a chunk.                                      [FAST eq.28] [FAST eq.29]
  void sum(const Chunk& chunk, State<T> state, const Side& side) const {
    Terms<T> terms(width_, in_.subchunk(), false);
    FeatureTile<T> tile = loader_.tile_of(side, chunk.head);
    clear(features_, state);
    for_each_subchunk(chunk, side.end, [&](int64_t first, int64_t size) {
      loader_.load(side, chunk.head, first, size, terms);
      features_.for_each_range([&](const FeatureRange& range) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(terms.x, at, loader_.tile_at(first + at), range);
          add(tile, at, range, terms, state);
        }
      });
    });
  }

  /// o = F / g for the queries of a chunk, from the sum over the other chunks' keys. `sum_of_keys`, if not null,
  /// becomes the sum over its own keys.
  void attend(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& o, const View& g,
              const State<T>* sum_of_keys) const {
    if (sum_of_keys != nullptr) sum(chunk, *sum_of_keys, other);
    const int64_t capacity = in_.subchunk();
    const bool causal = in_.params.causal, dropped = causal && in_.drops_features();
    Terms<T> queries(width_, capacity, false), keys(width_, causal ? capacity : 0, false);
    const Scratch<T> sums(capacity * (width_ + 1)), weights(dropped ? kTile * kTile : 0);
    T *numerators = sums.data(), *denominators = numerators + capacity * width_;
    FeatureTile<T> tile = loader_.tile_of(side, chunk.head), other_tile = loader_.tile_of(other, chunk.head);
    const IntraChunk<T> intra_chunk(in_.params, true, queries, keys, dropped, weights.data());
    for_each_subchunk(chunk, side.end, [&](int64_t first, int64_t size) {
      loader_.load(side, chunk.head, first, size, queries);
      if (causal) loader_.load(other, chunk.head, first, size, keys);
      std::fill_n(denominators, size, T{0});
      features_.for_each_range([&](const FeatureRange& range) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(queries.x, at, loader_.tile_at(first + at), range);
          tile.make_and_weigh(state.z + range.first, denominators + at);
          // [FAST eq.26], causal [FAST eq.32]
          apply(tile, range, state, {numerators + at * width_, width_});
          if (!dropped) continue;
          other_tile.set(keys.x, at, loader_.tile_at(first + at), range);
          other_tile.make(weights_.data() + range.first);
          multiply_features(other_tile, tile, range, weights.data());
        }
      });
      if (causal) intra_chunk.attend(numerators, denominators);
      store(chunk.head, first - side.causal_offset, size, numerators, denominators, o, g);
    });
  }

  /// The gradients of a chunk's queries, or of its keys and values, from the sum over the other side:
  /// the gradient of [FAST eq.26] [FAST eq.27], causal of [FAST eq.32] [FAST eq.33].
  void differentiate(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& dx_view,
                     const View* dy_view, const ChunkStates<T>& sums) const {
    if (sums.other != nullptr) sum(chunk, *sums.other, other);
    const int64_t capacity = in_.subchunk();
    const bool causal = in_.params.causal, dropped = causal && in_.drops_features();
    Terms<T> terms(width_, capacity, true), others(width_, causal ? capacity : 0, false);
    const Scratch<T> dphi(features_.capacity() * kTile), dx((width_ + 1) * capacity), dy_scratch(width_ * capacity);
    const Scratch<T> weights(dropped && !side.queries ? kTile * kTile : 0), dweights(dropped ? kTile * kTile : 0);
    FeatureTile<T> tile = loader_.tile_of(side, chunk.head), other_tile = loader_.tile_of(other, chunk.head);
    const IntraChunk<T> intra_chunk(in_.params, side.queries, terms, others, dropped, weights.data());
    const int64_t b = chunk.head / dx_view.shape[1], h = chunk.head % dx_view.shape[1];
    if (sums.own != nullptr) clear(features_, *sums.own);
    for_each_subchunk(chunk, side.end, [&](int64_t first, int64_t size) {
      loader_.load(side, chunk.head, first, size, terms);
      const Rows<T> dy_rows = dy_view != nullptr ? head_of<T>(*dy_view, b, h) : Rows<T>{};
      const Rows<T> dy = dy_view != nullptr ? terms.x.results(dy_rows, dy_scratch.data()) : Rows<T>{};
      if (causal) loader_.load(other, chunk.head, first, size, others);
      if (dropped) intra_chunk.dropped_cotangents(dweights.data());
      std::fill_n(dx.data(), (width_ + 1) * size, T{0});
      features_.for_each_range([&](const FeatureRange& range) {
        for (int64_t at = 0; at < size; at += kTile) {
          tile.set(terms.x, at, loader_.tile_at(first + at), range);
          feature_product<T>(range.count, kTile, width_, {state.s + range.first * width_, width_, 1},
                             {terms.y_columns + at, size}, {dphi.data(), kTile}, false);
          if (dy_view != nullptr) {
            tile.make();
            apply(tile, range, state, dy.from(at));
          }
          if (sums.own != nullptr) add(tile, at, range, terms, *sums.own);
          if (dropped) {
            other_tile.set(others.x, at, loader_.tile_at(first + at), range);
            other_tile.make(weights_.data() + range.first);
            feature_product<T>(range.count, kTile, kTile, {other_tile.data(), kTile, 1}, {dweights.data(), kTile},
                               {dphi.data(), kTile}, true);
            if (!side.queries) multiply_features(other_tile, tile, range, weights.data());
          }
          tile.add_gradients(dphi.data(), state.z + range.first, terms.t + at, dx.data());
        }
      });
      if (causal) intra_chunk.differentiate(dx.data(), dy);
      terms.x.store_gradients(dx.data(), head_of<T>(dx_view, b, h));
      if (dy_view != nullptr) terms.x.store(dy, dy_rows);
    });
  }

 private:
  /// Calls `f(first, size)` for the subchunks of a chunk, up to position `end`.
  template <class F>
  void for_each_subchunk(const Chunk& chunk, int64_t end, F f) const {
    const int64_t behind = std::min(chunk.first + chunk.size, end);
    for (int64_t first = chunk.first; first < behind; first += in_.subchunk()) {
      f(first, std::min(in_.subchunk(), round_up(behind - first, kTile)));
    }
  }

  /// state += Σ φ(x_n) [y_n, t_n]ᵀ over the tile of tokens from `at` on.
  void add(FeatureTile<T>& tile, int64_t at, const FeatureRange& range, const Terms<T>& terms, State<T> state) const {
    tile.make_and_sum(terms.t + at, state.z + range.first);
    feature_product<T>(range.count, width_, kTile, {tile.data(), kTile, 1}, terms.y.from(at),
                       {state.s + range.first * width_, width_}, true);
  }

  /// out [kTile, D] (+)= φᵀ·S
  void apply(const FeatureTile<T>& tile, const FeatureRange& range, State<T> state, Rows<T> out) const {
    feature_product<T>(kTile, width_, range.count, {tile.data(), 1, kTile}, {state.s + range.first * width_, width_},
                       out, range.first > 0);
  }

  /// weights (+)= φ(others)ᵀ·φ(own)
  void multiply_features(const FeatureTile<T>& others, const FeatureTile<T>& own, const FeatureRange& range,
                         T* weights) const {
    feature_product<T>(kTile, kTile, range.count, {others.data(), 1, kTile}, {own.data(), kTile}, {weights, kTile},
                       range.first > 0);
  }

  /// o = F / g                                                                                  [FAST eq.19]
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

  const FastmaxInputs& in_;
  const Features& features_;
  const TokenLoader<T>& loader_;
  int64_t width_;
  Scratch<T> weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
