#include <linnet/ops/cpu/attention/query_tile.h>
#include <linnet/ops/cpu/device/row_sums.h>

/// The backward pass of attention.cpp: weights are computed again, tile by tile, from the stored denominators, and
/// each tile takes five matrix products. With p_ij = f(s_ij) / g_i, G = ∂L/∂o and delta_i = G_i·o_i:
///   ∂v_j = Σ_i p_ij G_i,   ∂q_i = Σ_j ∂s_ij k_j,   ∂k_j = Σ_i ∂s_ij q_i,
/// with ∂s_ij from G_i·v_j and delta_i (`score_gradients`).
/// A task takes some keys of a head and all queries that see any of them, so the gradients of keys and values are
/// sums in a fixed order. Those of queries are added over the tasks, in order too. The pass is compute-bound: by the
/// products, then by the exponentials. Its tiles stay in a core's own caches.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Enough tasks that one slow core does not delay four. A head's keys are split, at whole tiles, only if there are
/// fewer heads than this.
constexpr int64_t kTasks = 16;

/// The keys of a head, split into `count` ranges of `size`.
struct KeySplit {
  int64_t count, size;

  KeySplit(int64_t heads, int64_t keys) {
    const int64_t tiles = std::max(ceil_div(keys, kKeys), int64_t{1});
    const int64_t wanted = std::min((kTasks - 1) / std::max(heads, int64_t{1}) + 1, tiles);
    size = ceil_div(tiles, wanted) * kKeys;
    count = std::max(ceil_div(keys, size), int64_t{1});
  }
};

/// Where the gradients of a head's keys (or values) are summed: in the result, or, if there is padding, in rows for
/// the other keys alone, which `finish` copies or adds to their positions.
template <class T>
class KeyGradients {
 public:
  KeyGradients(const AttentionContext<T>& context, const View& result)
      : context_(context),
        result_(result),
        compact_(context.in.mask.padding != nullptr ? context.in.heads() * context.in.keys() * width() : 0) {}

  Rows<T> rows(int64_t head) const {
    if (context_.in.mask.padding == nullptr) return rows_of<T>(result_, head);
    return {compact_.data() + head * context_.in.keys() * width(), width()};
  }

  /// Whether the rows already hold gradients, to which more are added.
  bool has_earlier() const { return context_.in.params.accumulate_keys && context_.in.mask.padding == nullptr; }

  void finish() const {
    if (context_.in.mask.padding == nullptr) return;
    parallel_tasks(context_.in.heads(), [&](int64_t head) {
      const Rows<T> from = rows(head), to = rows_of<T>(result_, head);
      if (!context_.in.params.accumulate_keys) {
        for (int64_t p = 0; p < context_.in.keys(); ++p) std::fill_n(to[p], width(), T{0});
      }
      for (int64_t j = 0; j < context_.padding.count(head); ++j) {
        T* const row = to[context_.padding.position(head, j)];
        if (context_.in.params.accumulate_keys) {
          add(row, from[j], width());
        } else {
          std::copy_n(from[j], width(), row);
        }
      }
    });
  }

 private:
  int64_t width() const { return context_.in.width(); }

  const AttentionContext<T>& context_;
  const View& result_;
  Scratch<T> compact_;
};

/// Where the gradients of queries are summed. For each tile of queries, the task of the range with its first
/// visible key writes to the result. The tasks of later ranges write to `partial` rows, which are added in the
/// end.
template <class T>
class QueryGradients {
 public:
  QueryGradients(const AttentionContext<T>& context, const KeySplit& split, const View& result)
      : context_(context),
        result_(result),
        count_(split.count),
        partial_queries_(context.in.heads() * split.count),
        partial_(find_partial_queries(split) * width()) {}

  bool is_partial(int64_t head, int64_t range, int64_t query) const {
    if (range == 0) return false;
    const PartialQueries& partial = partial_queries_[head * count_ + range];
    return query >= partial.first && query < partial.end;
  }
  /// The rows for the gradients of a tile of queries, from `first` on, that come from one range of keys.
  Rows<T> rows(int64_t head, int64_t range, int64_t first) const {
    if (!is_partial(head, range, first)) return rows_of<T>(result_, head).from(first);
    const PartialQueries& partial = partial_queries_[head * count_ + range];
    return {partial_.data() + (partial.row + first - partial.first) * width(), width()};
  }

  /// Sets the result to 0; needed if tiles of queries may see no key.
  void clear() const {
    parallel_tasks(context_.in.heads(), [&](int64_t head) {
      const Rows<T> rows = rows_of<T>(result_, head);
      for (int64_t i = 0; i < context_.in.queries(); ++i) std::fill_n(rows[i], width(), T{0});
    });
  }

  /// Adds the partial rows to the result, in the order of the keys.
  void finish() const {
    if (partial_.data() == nullptr) return;
    const int64_t query_tiles = ceil_div(context_.in.queries(), kQueries);
    parallel_for(context_.in.heads() * query_tiles, kGrain / (count_ * kQueries * width()) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t head = task / query_tiles, first = task % query_tiles * kQueries;
                     const int64_t tile_rows = std::min(kQueries, context_.in.queries() - first);
                     const Rows<T> dq = rows_of<T>(result_, head).from(first);
                     for (int64_t range = 1; range < count_; ++range) {
                       if (!is_partial(head, range, first)) continue;
                       const Rows<T> more = rows(head, range, first);
                       for (int64_t r = 0; r < tile_rows; ++r) add(dq[r], more[r], width());
                     }
                   }
                 });
  }

 private:
  /// The queries [first, end), whose rows begin at `row` of partial_.
  struct PartialQueries {
    int64_t first, end, row;
  };

  int64_t width() const { return context_.in.width(); }

  /// Fills partial_queries_, and returns the number of their rows.
  int64_t find_partial_queries(const KeySplit& split) const {
    int64_t rows = 0;
    for (int64_t head = 0; head < context_.in.heads(); ++head) {
      for (int64_t range = 1; range < count_; ++range) {
        const int64_t begin = std::min(range * split.size, context_.padding.count(head));
        const int64_t first = context_.first_query_tile(head, begin);
        const int64_t tiles = first_where(ceil_div(context_.in.queries(), kQueries), [&](int64_t tile) {
          return context_.visible(head, tile * kQueries).begin >= begin;
        });
        const int64_t end = std::max(std::min(tiles * kQueries, context_.in.queries()), first);
        partial_queries_[head * count_ + range] = {first, end, rows};
        rows += end - first;
      }
    }
    return rows;
  }

  const AttentionContext<T>& context_;
  const View& result_;
  int64_t count_;
  Scratch<PartialQueries> partial_queries_;
  Scratch<T> partial_;
};

template <class T>
class Backward {
 public:
  Backward(const AttentionInputs& in, const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
           const View& denominator)
      : in_(in),
        context_(in),
        split_(in_.heads(), in_.keys()),
        d_o_(d_o),
        o_(o),
        denominator_(denominator),
        dq_(context_, split_, dq),
        dk_(context_, dk),
        dv_(context_, dv) {}

  void run() const {
    if (in_.mask.ranges != nullptr && !in_.params.accumulate) dq_.clear();
    // In a causal head the first keys have the most queries: their tasks come first.
    in_.for_heads(split_.count, in_.queries(), [&](int64_t begin, int64_t end, auto task) {
      const Workspace<T> workspace(in_, 2, 2);
      const PreparedKeys<T> prepared(in_, context_.padding, std::min(split_.size, in_.keys()));
      for (int64_t i = begin; i < end; ++i) {
        const auto [head, range] = task(i);
        backward_of_keys(workspace, prepared, head, range);
      }
    });
    dq_.finish();
    dk_.finish();
    dv_.finish();
  }

 private:
  /// Computes the gradients that come from one range of a head's keys.
  void backward_of_keys(const Workspace<T>& workspace, const PreparedKeys<T>& prepared, int64_t head,
                        int64_t range) const {
    const int64_t count = context_.padding.count(head);
    const int64_t begin = std::min(range * split_.size, count), end = std::min(begin + split_.size, count);
    const HeadKeys<T> keys = prepared.load(head, begin, end, 0);
    const Rows<T> dk = dk_.rows(head), dv = dv_.rows(head);
    // The first tile of queries writes the gradients of the keys that it sees; those of the other keys are set to 0.
    const int64_t first_query = begin < end ? context_.first_query_tile(head, begin) : in_.queries();
    // Without ranges only the first tiles may see no key.
    if (range == 0 && in_.mask.ranges == nullptr && !in_.params.accumulate) {
      clear(dq_.rows(head, range, 0), 0, first_query);
    }
    KeyRange written{end, end};
    if (first_query < in_.queries()) written = context_.seen_by_tile(head, first_query);
    written = {std::clamp(written.begin, begin, end), std::clamp(written.end, begin, end)};
    if (!dk_.has_earlier()) {
      for (const Rows<T>& rows : {dk, dv}) {
        clear(rows, begin, written.begin);
        clear(rows, std::max(written.begin, written.end), end);
      }
    }
    int64_t read_until = begin;  // rows of keys before this one have been read, and are cached
    for (int64_t first = first_query; first < in_.queries(); first += kQueries) {
      const KeyRange seen = context_.seen_by_tile(head, first);
      if (seen.begin >= end) break;
      QueryTile<T> query_tile(context_, keys, workspace, head, first);
      const Rows<const T> g = rows_of<const T>(d_o_, head).from(first);
      query_tile.to_columns(g, 1, workspace.columns(1));
      const QueryFactors<T> factors = query_factors(query_tile, head, first);
      const Rows<T> dq = dq_.rows(head, range, first);
      const bool add_to_dq = in_.params.accumulate && !dq_.is_partial(head, range, first);
      fetch_rows(dq, query_tile.rows(), in_.width());
      const int64_t first_key = std::max(begin, seen.begin), end_key = std::min(end, seen.end);
      if (first_key >= end_key && !add_to_dq) clear(dq, 0, query_tile.rows());
      for (int64_t from = first_key; from < end_key; from += kKeys) {
        const ScoreTile<T> weights = query_tile.tile(from, end, workspace.tile(0));
        const ScoreTile<T> ds = query_tile.tile(from, end, workspace.tile(1));
        const int64_t unread = from < read_until ? 0 : ds.keys;
        fetch_rows(keys.k(from), unread, in_.width());
        query_tile.scores(weights, from);
        fetch_rows(keys.v(from), unread, in_.width());
        query_tile.products(ds, keys.v(from), workspace.columns(1));
        query_tile.draw(ds, from);
        query_tile.drop(ds);
        query_tile.differentiate(weights, ds, from, factors);
        query_tile.drop(weights);
        query_tile.sum_visible(ds, keys.k(from), from, dq, add_to_dq || from > first_key);
        const bool add_to_keys = first > first_query || dk_.has_earlier();
        fetch_rows(dk.from(from), unread, in_.width());
        query_tile.sum_by_key(ds, query_tile.queries(), dk.from(from), add_to_keys);
        fetch_rows(dv.from(from), unread, in_.width());
        query_tile.sum_by_key(weights, g, dv.from(from), add_to_keys);
        read_until = std::max(read_until, from + ds.keys);
      }
      query_tile.through_map(dq);
    }
    if (in_.maps()) keys.mapped.differentiate(end - begin, dk.from(begin));
  }

  void clear(Rows<T> rows, int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) std::fill_n(rows[r], in_.width(), T{0});
  }

  QueryFactors<T> query_factors(const QueryTile<T>& query_tile, int64_t head, int64_t first) const {
    const Rows<const T> g = rows_of<const T>(d_o_, head).from(first);
    const Rows<const T> y = rows_of<const T>(o_, head).from(first);
    fetch_rows(y, query_tile.rows(), in_.width());
    QueryFactors<T> factors;
    with_width<T>(in_.width(), [&](auto width) {
      dot_rows(
          query_tile.rows(), [&](int64_t r) { return g[r]; }, [&](int64_t r) { return y[r]; }, factors.delta, width);
    });
    std::copy_n(data<T>(denominator_) + head * in_.queries() + first, query_tile.rows(), factors.denominator);
    if (in_.params.kind.softmax) {  // a query whose scores are all −∞ has no weights: 2^(s − ∞) = 0
      constexpr T kInfinity = std::numeric_limits<T>::infinity();
      std::replace(factors.denominator, factors.denominator + query_tile.rows(), -kInfinity, kInfinity);
    }
    return factors;
  }

  const AttentionInputs& in_;
  AttentionContext<T> context_;
  KeySplit split_;
  const View &d_o_, &o_, &denominator_;
  QueryGradients<T> dq_;
  KeyGradients<T> dk_, dv_;
};

void attention_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                        AttentionMask mask, AttentionParams params) {
  const AttentionInputs in{q, k, v, mask, params};
  dispatch_floating(o.dtype, [&]<class T>(T) { Backward<T>(in, dq, dk, dv, d_o, o, denominator).run(); });
}

}  // namespace

void fill_attention_backward(Backend& table) { table.attention_backward = attention_backward; }

}  // namespace linnet::cpu::LINNET_ISA
