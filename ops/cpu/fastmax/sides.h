#pragma once

#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/fastmax/chunk.h>
#include <linnet/ops/cpu/fastmax/tile.h>

/// The two sides of Fastmax's sums, queries and keys: from tensors to terms, block by block.

namespace linnet::cpu::LINNET_ISA {

/// Positions are those of the keys; query i is at i + (keys − queries) when causal, as it sees the keys up to there.
struct Inputs {
  View q, k, v;
  const View* padding_mask;
  const FastmaxParams& params;

  int64_t heads() const { return q.shape[0] * q.shape[1]; }
  int64_t width() const { return q.shape[3]; }
  int64_t causal_offset() const { return params.causal ? k.shape[2] - q.shape[2] : 0; }
  int64_t first() const { return std::min(causal_offset(), int64_t{0}); }
  int64_t keys_end() const { return k.shape[2]; }
  int64_t queries_end() const { return q.shape[2] + causal_offset(); }
  bool drops() const { return params.keep_of_256 < 256; }
  /// Whether weights inside a chunk are made of dropped features.
  bool drops_features() const { return drops() && params.dropout != FastmaxDropout::token; }

  /// Whether features of first order are dropped.
  bool drops_first_order() const { return drops() && params.dropout != FastmaxDropout::quadratic; }

  /// What features are multiplied with: columns of a state, and each other in a chunk with dropped ones.
  int64_t columns() const { return params.causal && drops_features() ? std::max(width(), kTile) : width(); }

  /// What is handled together beside one state: enough that passing the state on costs little beside using it, when
  /// causal little enough that the quadratic form inside costs little, too. With dropped features that costs M a
  /// pair.
  int64_t block() const {
    if (params.causal && (drops_features() || params.a2 == 0)) return kTile;
    return std::clamp(round_up(4 * width(), kTile), kTile, 8 * kTile);
  }
};

/// What backward knows of the result.
struct Cotangents {
  View d_o, o, g;
};

/// The queries or the keys.
struct Side {
  const View& x;
  bool queries;
  int64_t causal_offset, end;
  RandomKey key;
  const Cotangents* cotangents;  // of the queries, when wanted
};

template <class T>
class Sides {
 public:
  Sides(const Inputs& in, const Features& features)
      : in_(in),
        features_(features),
        width_(in.width()),
        first_keys_(in.padding_mask != nullptr ? in.q.shape[0] : 0) {
    if (in.padding_mask == nullptr) return;
    for (int64_t b = 0; b < in.q.shape[0]; ++b) {
      const bool* padding_mask = mask_of(b);
      int64_t& first = first_keys_[b];
      for (first = 0; first < in.keys_end() && !padding_mask[first * in.padding_mask->strides[1]];) ++first;
    }
  }

  const Features& features() const { return features_; }

  Side queries(const Cotangents* cotangents) const {
    return {in_.q, true, in_.causal_offset(), in_.queries_end(), in_.params.q_rng, cotangents};
  }
  Side keys() const { return {in_.k, false, 0, in_.keys_end(), in_.params.k_rng, nullptr}; }

  int64_t tile_at(int64_t position) const { return (position - in_.first()) / kTile; }

  FeatureTile<T> tile_of(const Side& side, int64_t head) const {
    return {in_.params, side.key, features_, head, tiles()};
  }

  /// `size` tokens from position `first` on, with their y only as keys or where cotangents are wanted.
  void load(const Side& side, int64_t head, int64_t first, int64_t size, Terms<T>& terms) const {
    const int64_t from = first - side.causal_offset;
    terms.x.load(sequence(side, head), from, size, in_.params.standardise);
    if (!side.queries) {
      terms.y = tokens_of(keys_of(in_.v, head), from, size, width_, terms.room);
      std::fill_n(terms.t, size, T{1});
    } else if (side.cotangents != nullptr) {
      load_cotangents(*side.cotangents, head, from, size, {terms.room, width_}, terms.t);
      terms.y = {terms.room, width_};
    }
    if (terms.y_columns != nullptr) transpose<T>(size, width_, terms.y, {terms.y_columns, size});
    load_token_factors(side, head, first, size, terms);
  }

  Sequence<T> sequence(const Side& side, int64_t head) const {
    return side.queries ? queries_of(side.x, head) : keys_of(side.x, head);
  }

  /// One head of k or v, without padding.
  Sequence<T> keys_of(const View& x, int64_t head) const {
    const int64_t b = head / x.shape[1];
    const Rows<const T> rows = head_of<const T>(x, b, head % x.shape[1]);
    if (in_.padding_mask == nullptr) return {rows, 0, x.shape[2], nullptr, 0};
    return {rows, 0, x.shape[2], mask_of(b), in_.padding_mask->strides[1]};
  }

  /// One head of q, or of what belongs to queries, without those that see no key: whatever they hold, it is nothing.
  Sequence<T> queries_of(const View& x, int64_t head) const {
    const int64_t b = head / x.shape[1], count = x.shape[2],
                  first_key = in_.padding_mask != nullptr ? first_keys_[b] : 0;
    const int64_t first = in_.params.causal ? std::clamp(first_key - in_.causal_offset(), int64_t{0}, count) : 0;
    return {head_of<const T>(x, b, head % x.shape[1]), first_key < in_.keys_end() ? first : count, count, nullptr, 0};
  }

  /// The cotangents of `size` queries from `first` on: y_i = G_i / g_i and t_i = −(G_i·o_i) / g_i, and 0 for a query
  /// that sees no key.
  void load_cotangents(const Cotangents& c, int64_t head, int64_t first, int64_t size, Rows<T> y, T* t) const {
    const Sequence<T> d_o = queries_of(c.d_o, head), o = queries_of(c.o, head);
    const auto there = [&](int64_t n) { return std::clamp(first + n, int64_t{0}, d_o.count - 1); };
    with_width<T>(width_, [&](auto width) {
      dot_rows(
          size, [&](int64_t n) { return d_o.rows[there(n)]; }, [&](int64_t n) { return o.rows[there(n)]; }, t, width);
    });
    const T* g = data<T>(c.g) + head * d_o.count + first;
    for (int64_t n = 0; n < size; ++n) {
      T* out = y[n];
      if (d_o.has(first + n) && g[n] != 0) {
        const T inverse = 1 / g[n];
        const T* cotangent = d_o.rows[first + n];
#pragma omp simd
        for (int64_t d = 0; d < width_; ++d) out[d] = cotangent[d] * inverse;
        t[n] *= -inverse;
      } else {
        std::fill_n(out, width_, T{0});
        t[n] = 0;
      }
    }
  }

 private:
  const bool* mask_of(int64_t b) const { return data<bool>(*in_.padding_mask) + b * in_.padding_mask->strides[0]; }

  int64_t tiles() const { return tile_at(std::max(in_.keys_end(), in_.queries_end()) - 1) + 1; }

  void load_token_factors(const Side& side, int64_t head, int64_t first, int64_t size, Terms<T>& terms) const {
    std::fill_n(terms.factors, size, T{1});
    if (!in_.drops() || in_.drops_features()) return;
    const FeatureBlock block{0, 1, 0, width_ + 1};
    FeatureMask<T> mask(in_.params, side.key, features_, head, tiles());
    for (int64_t at = 0; at < size; at += kTile) {
      mask.draw(tile_at(first + at), block);
      std::copy_n(mask.factors(0, 1, 1), kTile, terms.factors + at);
    }
  }

  const Inputs& in_;
  const Features& features_;
  int64_t width_;
  Scratch<int64_t> first_keys_;  // of each sequence that is no padding, where there is any
};

}  // namespace linnet::cpu::LINNET_ISA
