#pragma once

#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/fastmax/chunk.h>
#include <linnet/ops/cpu/fastmax/tile.h>

/// Reads queries, keys, values and cotangents from their tensors as terms of Fastmax's sums.

namespace linnet::cpu::LINNET_ISA {

/// The arguments of the kernel. Tokens are counted by positions: key j is at j, query i at i + causal_offset, so that
/// it sees the keys up to its own position.
struct FastmaxInputs {
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
  /// Whether dropout acts on single features: weights inside a chunk are then sums over dropped features.
  bool drops_features() const { return drops() && params.dropout != FastmaxDropout::token; }

  /// Whether dropout acts on features of first order.
  bool drops_first_order() const { return drops() && params.dropout != FastmaxDropout::quadratic; }

  /// The most columns of a matrix that features are multiplied with: D of a state, and kTile where the features of
  /// queries and keys are multiplied with each other.
  int64_t columns() const { return params.causal && drops_features() ? std::max(width(), kTile) : width(); }

  /// How many tokens of a chunk are loaded together: so many that a scan's work on states costs little compared with
  /// their use, and when causal so few that the quadratic form costs little too. With dropped features that form
  /// costs M multiplications a pair.
  int64_t subchunk() const {
    if (params.causal && (drops_features() || params.a2 == 0)) return kTile;
    return std::clamp(round_up(4 * width(), kTile), kTile, 8 * kTile);
  }
};

/// The inputs of backward in addition to the tensors of forward: ∂L/∂o, o and the denominators g.
struct Cotangents {
  View d_o, o, g;
};

/// The queries or the keys of all heads.
struct Side {
  const View& x;
  bool queries;
  int64_t causal_offset, end;
  RandomKey key;
  const Cotangents* cotangents;  // null where not wanted, and for keys
};

template <class T>
class TokenLoader {
 public:
  TokenLoader(const FastmaxInputs& in, const Features& features)
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

  /// Loads `size` tokens from position `first` on; y and t only for keys, or where cotangents are wanted.
  void load(const Side& side, int64_t head, int64_t first, int64_t size, Terms<T>& terms) const {
    const int64_t from = first - side.causal_offset;
    terms.x.load(sequence(side, head), from, size, in_.params.map, side.queries);
    if (!side.queries) {
      terms.y = tokens_of(keys_of(in_.v, head), from, size, width_, terms.scratch);
      std::fill_n(terms.t, size, T{1});
    } else if (side.cotangents != nullptr) {
      load_cotangents(*side.cotangents, head, from, size, {terms.scratch, width_}, terms.t);
      terms.y = {terms.scratch, width_};
    }
    if (terms.y_columns != nullptr) transpose<T>(size, width_, terms.y, {terms.y_columns, size});
    load_token_factors(side, head, first, size, terms);
  }

  Sequence<T> sequence(const Side& side, int64_t head) const {
    return side.queries ? queries_of(side.x, head) : keys_of(side.x, head);
  }

  /// One head of k or v; padding reads as zeros.
  Sequence<T> keys_of(const View& x, int64_t head) const {
    const int64_t b = head / x.shape[1];
    const Rows<const T> rows = head_of<const T>(x, b, head % x.shape[1]);
    if (in_.padding_mask == nullptr) return {rows, 0, x.shape[2], nullptr, 0};
    return {rows, 0, x.shape[2], mask_of(b), in_.padding_mask->strides[1]};
  }

  /// One head of q, d_o or o; queries that see no key read as zeros.
  Sequence<T> queries_of(const View& x, int64_t head) const {
    const int64_t b = head / x.shape[1], count = x.shape[2],
                  first_key = in_.padding_mask != nullptr ? first_keys_[b] : 0;
    const int64_t first = in_.params.causal ? std::clamp(first_key - in_.causal_offset(), int64_t{0}, count) : 0;
    return {head_of<const T>(x, b, head % x.shape[1]), first_key < in_.keys_end() ? first : count, count, nullptr, 0};
  }

  /// Gradient of o = F/g [FAST eq.19] for `size` queries from `first` on, with G = ∂L/∂o: y_i = ∂L/∂F_i = G_i / g_i
  /// and t_i = ∂L/∂g_i = −(G_i·o_i) / g_i; 0 for a query that sees no key.
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
    const FeatureRange first_order{0, 1, 0, width_ + 1};
    FeatureMask<T> mask(in_.params, side.key, features_, head, tiles());
    for (int64_t at = 0; at < size; at += kTile) {
      mask.draw(tile_at(first + at), first_order);
      std::copy_n(mask.factors(0, 1, 1), kTile, terms.factors + at);
    }
  }

  const FastmaxInputs& in_;
  const Features& features_;
  int64_t width_;
  Scratch<int64_t> first_keys_;  // the first key of each sequence that is not padding; empty without a mask
};

}  // namespace linnet::cpu::LINNET_ISA
