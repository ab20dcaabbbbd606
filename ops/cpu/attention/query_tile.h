#pragma once

#include <cmath>

#include <linnet/ops/cpu/attention/keys.h>
#include <linnet/ops/cpu/device/philox_blocks.h>
#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/device/transpose.h>

namespace linnet::cpu::LINNET_ISA {

/// The factors of token dropout, 0 or 256/keep_of_256 each, from the same bytes that the factorised form draws.
template <class T>
class TokenFactors {
 public:
  TokenFactors(const AttentionInputs& in, const Padding& padding)
      : in_(in),
        queries_(in.drops_tokens() ? in.heads() * in.queries() : 0),
        keys_(in.drops_tokens() ? in.heads() * in.keys() : 0) {
    if (!in.drops_tokens()) return;
    parallel_tasks(in.heads(), [&](int64_t head) { draw(head, padding); });
  }

  const T* queries(int64_t head) const { return queries_.data() + head * in_.queries(); }
  /// The factors of the keys, numbered without padding.
  const T* keys(int64_t head) const { return keys_.data() + head * in_.keys(); }

 private:
  void draw(int64_t head, const Padding& padding) {
    const TokenDropout& dropout = in_.params.tokens;
    const int64_t causal_offset = in_.params.causal ? in_.keys() - in_.queries() : 0,
                  first = std::min(causal_offset, int64_t{0});
    const int64_t positions = std::max(in_.keys(), in_.queries() + causal_offset) - first;
    const int64_t base = head * ((positions + 63) / 64 * 64) - first;
    T *to_queries = queries_.data() + head * in_.queries(), *to_keys = keys_.data() + head * in_.keys();
    draw(dropout.q_rng, base + causal_offset, in_.queries(), to_queries);
    draw(dropout.k_rng, base, in_.keys(), to_keys);
    for (int64_t j = 0; j < padding.count(head); ++j) to_keys[j] = to_keys[padding.position(head, j)];
  }

  void draw(RandomKey key, int64_t first, int64_t count, T* out) const {
    const int keep_of_256 = in_.params.tokens.keep_of_256;
    const T kept = static_cast<T>(256.0 / keep_of_256);
    for (int64_t block = first / 16; block * 16 < first + count; ++block) {
      const PhiloxBlock random = philox(key, static_cast<uint64_t>(block));
      for (int64_t byte = 0; byte < 16; ++byte) {
        const int64_t i = block * 16 + byte - first;
        if (i < 0 || i >= count) continue;
        const auto value = static_cast<int>(random.word[byte / 4] >> (byte % 4 * 8) & 255);
        out[i] = value < keep_of_256 ? kept : T{0};
      }
    }
  }

  const AttentionInputs& in_;
  Scratch<T> queries_, keys_;
};

/// The keys [begin, end), numbered without padding.
struct KeyRange {
  int64_t begin, end;
};

/// The first number of [0, count) for which `condition` holds, or `count`. It must hold for all later numbers too.
template <class Condition>
int64_t first_where(int64_t count, Condition condition) {
  int64_t begin = 0, end = count;
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (condition(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

/// Inputs, padding and token dropout of one call, shared by all tasks.
template <class T>
struct AttentionContext {
  const AttentionInputs& in;
  Padding padding{in};
  TokenFactors<T> tokens{in, padding};

  explicit AttentionContext(const AttentionInputs& inputs) : in(inputs) {}

  /// The keys that a query sees. Neither end decreases with `query`.
  KeyRange visible(int64_t head, int64_t query) const {
    if (in.mask.ranges != nullptr) {
      const View& ranges = *in.mask.ranges;
      const int64_t b = in.sequence(head), h = head % in.q.shape[1];
      const int64_t* range = data<const int64_t>(ranges) + b * ranges.strides[0] + h * ranges.strides[1] + 2 * query;
      return {padding.count_before(head, range[0]), padding.count_before(head, range[1])};
    }
    const int64_t positions = in.params.causal ? query + 1 + in.keys() - in.queries() : in.keys();
    return {0, padding.count_before(head, std::clamp(positions, int64_t{0}, in.keys()))};
  }
  /// A range that includes every key that the tile of queries from `first` on sees.
  KeyRange seen_by_tile(int64_t head, int64_t first) const {
    const int64_t last = std::min(first + kQueries, in.queries()) - 1;
    return {visible(head, first).begin, visible(head, last).end};
  }
  /// The first query of the first tile of queries that may see keys from `key` on; the number of queries if none
  /// does.
  int64_t first_query_tile(int64_t head, int64_t key) const {
    const int64_t first = first_where(in.queries(), [&](int64_t i) { return visible(head, i).end > key; });
    return first < in.queries() ? first / kQueries * kQueries : in.queries();
  }
};

/// Scratch of one task, reused for each of its query tiles.
template <class T>
class Workspace {
 public:
  /// `tiles`: tiles of scores. `columns`: transposed tiles of tensors like the queries.
  Workspace(const AttentionInputs& in, int64_t tiles, int64_t columns)
      : width_(padded<T>(std::min(kQueries, in.queries()))),
        columns_size_(width_ * in.width()),
        factors_(tiles * kKeys * width_),
        drawn_(factors_ + (in.params.dropout > 0 ? kKeys * width_ : 0)),
        columns_(drawn_ + (in.params.dropout > 0 ? kQueries * kKeys : 0)),
        queries_(columns_ + columns * columns_size_),
        head_width_(in.width()),
        map_(in.params.map),
        memory_(queries_ + (in.maps() ? kQueries * (head_width_ + 1) : 0)) {}

  T* tile(int64_t i) const { return memory_.data() + i * kKeys * width_; }
  T* factors() const { return memory_.data() + factors_; }
  T* drawn() const { return memory_.data() + drawn_; }
  T* columns(int64_t i) const { return memory_.data() + columns_ + i * columns_size_; }
  MappedRows<T> queries() const {
    T* y = memory_.data() + queries_;
    return {map_, true, {y, head_width_}, y + kQueries * head_width_, head_width_};
  }

 private:
  int64_t width_, columns_size_, factors_, drawn_, columns_, queries_, head_width_;
  RowMap map_;
  Scratch<T> memory_;
};

/// Queries of a head: in place, or mapped into `memory` if asked for.
template <class T>
Rows<const T> queries_of(const AttentionInputs& in, int64_t head, int64_t first, int64_t rows,
                         const MappedRows<T>& memory) {
  const Rows<const T> queries = rows_of<const T>(in.q, head).from(first);
  if (!in.maps()) return queries;
  memory.make(rows, [&](int64_t r) { return queries[r]; });
  return memory.y;
}

/// Up to kQueries queries of one head. Makes tiles of scores with the head's keys, and sums over them.
template <class T>
class QueryTile {
 public:
  QueryTile(const AttentionContext<T>& context, const HeadKeys<T>& keys, const Workspace<T>& workspace, int64_t head,
            int64_t first)
      : context_(context),
        keys_(keys),
        head_(head),
        first_(first),
        rows_(std::min(kQueries, context.in.queries() - first)),
        width_(padded<T>(rows_)),
        mapped_(workspace.queries()),
        queries_(queries_of(context.in, head, first, rows_, mapped_)),
        transposed_(workspace.columns(0)),
        factors_(workspace.factors()),
        drawn_(workspace.drawn()) {
    const AttentionInputs& in = context.in;
    for (int64_t r = 0; r < rows_; ++r) visible_[r] = context.visible(head, first + r);
    if (in.maps()) {
      for (int64_t r = 0; r < rows_ && visible_[r].end == 0; ++r) mapped_.clear(r);
    }
    if (in.drops_tokens()) std::copy_n(context.tokens.queries(head) + first, rows_, token_factors_);
    to_columns(queries_, static_cast<T>(in.params.scale * (in.params.kind.softmax ? kLog2E : 1)), transposed_);
  }

  /// to[d][r] = factor · from[r][d] for the rows of the tile, padded with 0 to whole vectors.
  void to_columns(Rows<const T> from, T factor, T* to) const {
    const int64_t width = context_.in.width();
    fetch_rows(from, rows_, width);
    transpose(rows_, width, from, {to, width_}, factor);
    for (int64_t d = 0; d < width; ++d) std::fill(to + d * width_ + rows_, to + (d + 1) * width_, T{0});
  }

  int64_t rows() const { return rows_; }
  KeyRange visible(int64_t r) const { return visible_[r]; }
  /// A range that includes every key that a query of the tile sees.
  KeyRange seen_by_any() const { return {visible_[0].begin, visible_[rows_ - 1].end}; }
  Rows<const T> queries() const { return queries_; }

  /// A tile of scores with the keys from `from` on, at most up to `to`, without keys that no query sees.
  ScoreTile<T> tile(int64_t from, int64_t to, T* memory) {
    const int64_t count = std::max(std::min({kKeys, to - from, seen_by_any().end - from}), int64_t{0});
    ScoreTile<T> tile{memory, count, width_, nullptr, nullptr};
    const bool all_begun = visible_[rows_ - 1].begin <= from;
    if (from + count <= visible_[0].end && all_begun) return tile;
    for (int64_t j = 0, r = 0; j < count; ++j) {
      while (visible_[r].end <= from + j) ++r;
      first_seeing_[j] = r;
    }
    tile.first_seeing = first_seeing_;
    if (all_begun) return tile;
    for (int64_t j = 0, r = 0; j < count; ++j) {
      while (r < rows_ && visible_[r].begin <= from + j) ++r;
      end_seeing_[j] = r;
    }
    tile.end_seeing = end_seeing_;
    return tile;
  }

  /// s_jc = x_j·y_c for the columns y_c of `columns` [D, padded rows], where query c sees key j.
  void products(const ScoreTile<T>& s, Rows<const T> x, const T* columns) const {
    const int64_t step = s.first_seeing == nullptr ? s.keys : kQueryStep<T>;
    for (int64_t j = 0; j < s.keys; j += step) {
      const int64_t keys = std::min(step, s.keys - j), first = s.first_of(j) / kQueryStep<T> * kQueryStep<T>;
      const int64_t end = round_up(s.end_of(j + keys - 1), kQueryStep<T>);
      if (first >= end) continue;
      tile_product<T>(keys, end - first, context_.in.width(), {x[j], x.stride, 1}, {columns + first, width_},
                      {s[j] + first, width_}, false);
    }
  }
  /// s_ij = scale · q_i·k_j, times log2 e for softmax; −∞ for pairs that codes hide.
  void scores(const ScoreTile<T>& s, int64_t from) const {
    products(s, keys_.k(from), transposed_);
    if (context_.in.mask.codes != nullptr) hide_by_codes(s, from);
    if (context_.in.params.has_self_score) {
      set_self(s, from, static_cast<T>(context_.in.params.self_score * kLog2E));
    }
  }

  void weigh(const ScoreTile<T>& s, int64_t from, Totals<T>& sums) const {
    const AttentionParams& params = context_.in.params;
    if (params.kind.softmax) return weigh_softmax(s, sums);
    if (!context_.in.drops_tokens()) return weigh_polynomial(s, sums, params.kind);
    weigh_dropped(s, sums, params.kind, token_factors_, context_.tokens.keys(head_) + from,
                  params.tokens.shared_denominator);
  }

  void differentiate(const ScoreTile<T>& s, const ScoreTile<T>& ds, int64_t from,
                     const QueryFactors<T>& query_factors) const {
    const AttentionParams& params = context_.in.params;
    const T scale = static_cast<T>(params.scale);
    if (!context_.in.drops_tokens()) {
      score_gradients(s, ds, query_factors, scale, params.kind);
      if (params.has_self_score) set_self(ds, from, T{0});
      return;
    }
    dropped_score_gradients(s, ds, query_factors, scale, params.kind, token_factors_,
                            context_.tokens.keys(head_) + from, params.tokens.shared_denominator);
  }

  /// out_i = Σ_j w_ij x_j over the keys that query i sees; with `add`, the sum is added to out_i. If x is not finite,
  /// a query reads only the keys that it sees: a weight of 0 times an infinity of a later key would be NaN.
  void sum_visible(const ScoreTile<T>& w, Rows<const T> x, int64_t from, Rows<T> out, bool add) const {
    const int64_t width = context_.in.width();
    const Matrix<T> weights{w.data, 1, w.width};
    const int64_t step = w.first_seeing == nullptr ? rows_ : all_finite(x, w.keys, width) ? kQueryStep<T> : 1;
    for (int64_t r = 0; r < rows_; r += step) {
      const int64_t rows = std::min(step, rows_ - r);
      const int64_t first = std::clamp(visible_[r].begin - from, int64_t{0}, w.keys);
      const int64_t end = std::clamp(visible_[r + rows - 1].end - from, first, w.keys);
      tile_product<T>(rows, width, end - first, weights.from(r, first), x.from(first), out.from(r), add);
    }
  }

  /// out_j = Σ_i w_ij x_i over the queries that see key j; with `add`, the sum is added to out_j.
  void sum_by_key(const ScoreTile<T>& w, Rows<const T> x, Rows<T> out, bool add) const {
    const int64_t step = w.first_seeing == nullptr ? w.keys : kQueryStep<T>;
    for (int64_t j = 0; j < w.keys; j += step) {
      const int64_t keys = std::min(step, w.keys - j), first = w.first_of(j);
      const int64_t end = std::clamp(w.end_of(j + keys - 1), first, rows_);
      tile_product<T>(keys, context_.in.width(), end - first, {w[j] + first, w.width, 1}, x.from(first), out.from(j),
                      add);
    }
  }

  /// Turns gradients of mapped queries into those of the queries, in place, if they were mapped.
  void through_map(Rows<T> gradients) const {
    if (context_.in.maps()) mapped_.differentiate(rows_, gradients);
  }

  /// Draws the dropout factors of a tile's weights, 0 or 1 / (1 − rate). The stream has the order [query, key]. For
  /// each range of keys between padding they are drawn query by query, and then transposed.
  void draw(const ScoreTile<T>& s, int64_t from) const {
    if (!drops()) return;
    const AttentionInputs& in = context_.in;
    const T kept = static_cast<T>(1 / (1 - in.params.dropout));
    const uint64_t threshold = keep_threshold(1 - in.params.dropout);
    const Rows<T> drawn{drawn_, kKeys};
    for (int64_t j = 0, end = 0; j < s.keys; j = end) {
      const int64_t position = context_.padding.position(head_, from + j);
      while (end < s.keys && context_.padding.position(head_, from + end) - position == end - j) ++end;
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t element = (head_ * in.queries() + first_ + r) * in.keys() + position;
        uint32_t words[kKeys + 8];
        philox_blocks(in.params.dropout_rng, static_cast<uint64_t>(element / 4), ceil_div(element % 4 + end - j, 4),
                      words);
        const uint32_t* word = words + element % 4;
        for (int64_t c = j; c < end; ++c) drawn[r][c] = word[c - j] < threshold ? kept : T{0};
      }
    }
    transpose<T>(rows_, s.keys, drawn, {factors_, width_});
  }
  /// Multiplies a tile by the factors that were drawn.
  void drop(const ScoreTile<T>& s) const {
    if (!drops()) return;
    for (int64_t j = 0; j < s.keys; ++j) {
      const T* factors = factors_ + j * width_;
      for (int64_t r = 0; r < rows_; ++r) s[j][r] *= factors[r];
    }
  }

 private:
  bool drops() const { return context_.in.params.dropout > 0; }

  /// Sets the entry of each query i with key i to `value`.
  void set_self(const ScoreTile<T>& s, int64_t from, T value) const {
    const int64_t end = std::min(rows_, from + s.keys - first_);
    for (int64_t r = std::max(from - first_, int64_t{0}); r < end; ++r) s[first_ + r - from][r] = value;
  }

  void hide_by_codes(const ScoreTile<T>& s, int64_t from) const {
    const View& codes = *context_.in.mask.codes;
    const int64_t rounds = codes.shape[2], tokens = codes.shape[3];
    const int32_t* of_head = data<const int32_t>(codes) + head_ * rounds * tokens;
    for (int64_t round = 0; round < rounds; ++round) {
      int32_t of_queries[kQueries] = {};
      std::copy_n(of_head + round * tokens + first_, rows_, of_queries);
      const int32_t* of_keys = of_head + round * tokens + from;
      for (int64_t j = 0; j < s.keys; ++j) {
        T* row = s[j];
        const int32_t of_key = of_keys[j];
#pragma omp simd
        for (int64_t c = 0; c < width_; ++c) {
          const auto difference = static_cast<uint32_t>(of_queries[c]) - static_cast<uint32_t>(of_key);
          row[c] = difference <= 1 ? -std::numeric_limits<T>::infinity() : row[c];
        }
      }
    }
  }

  const AttentionContext<T>& context_;
  const HeadKeys<T>& keys_;
  int64_t head_, first_, rows_, width_;
  MappedRows<T> mapped_;
  Rows<const T> queries_;
  T *transposed_, *factors_, *drawn_;
  KeyRange visible_[kQueries];
  int64_t first_seeing_[kKeys], end_seeing_[kKeys];
  T token_factors_[kQueries] = {};
};

}  // namespace linnet::cpu::LINNET_ISA
