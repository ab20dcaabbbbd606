#include <linnet/ops/cpu/attention/query_tile.h>
#include <linnet/ops/cpu/device/row_sums.h>

/// The backward pass of attention.cpp: weights are computed again, tile by tile, from the stored denominators, and
/// each tile takes five matrix products. With p_ij = f(s_ij) / g_i, G = ∂L/∂o and delta_i = G_i·o_i:
///   ∂v_j = Σ_i p_ij G_i,   ∂q_i = Σ_j ∂s_ij k_j,   ∂k_j = Σ_i ∂s_ij q_i,
/// with ∂s_ij from G_i·v_j and delta_i (`score_gradients`).
/// A task takes some keys of a head and all of its queries, so that the gradients of keys and values are sums in a
/// fixed order; those of queries are added over the tasks, in order too. It is compute-bound: by the products, then
/// by the exponentials; its tiles stay in a core's own caches.

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

/// Where the gradients of a head's keys (or values) are summed: in the result, or with padding in rows for the other
/// keys alone, which `finish` copies to their positions.
template <class T>
class KeyGradients {
 public:
  KeyGradients(const AttentionContext<T>& context, const View& result)
      : context_(context),
        result_(result),
        compact_(context.in.padding_mask != nullptr ? context.in.heads() * context.in.keys() * width() : 0) {}

  Rows<T> rows(int64_t head) const {
    if (context_.in.padding_mask == nullptr) return rows_of<T>(result_, head);
    return {compact_.data() + head * context_.in.keys() * width(), width()};
  }

  void finish() const {
    if (context_.in.padding_mask == nullptr) return;
    parallel_tasks(context_.in.heads(), [&](int64_t head) {
      const Rows<T> from = rows(head), to = rows_of<T>(result_, head);
      for (int64_t p = 0; p < context_.in.keys(); ++p) std::fill_n(to[p], width(), T{0});
      for (int64_t j = 0; j < context_.padding.count(head); ++j) {
        std::copy_n(from[j], width(), to[context_.padding.position(head, j)]);
      }
    });
  }

 private:
  int64_t width() const { return context_.in.width(); }

  const AttentionContext<T>& context_;
  const View& result_;
  Scratch<T> compact_;
};

template <class T>
class Backward {
 public:
  Backward(const AttentionInputs& in, const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
           const View& denominator)
      : in_(in),
        context_(in),
        split_(in_.heads(), in_.keys()),
        dq_(dq),
        d_o_(d_o),
        o_(o),
        denominator_(denominator),
        dk_(context_, dk),
        dv_(context_, dv),
        partial_((split_.count - 1) * in_.heads() * in_.queries() * in_.width()) {}

  void run() const {
    // In a causal head the first keys have the most queries: their tasks come first.
    in_.for_heads(split_.count, in_.queries(), [&](int64_t begin, int64_t end, auto task) {
      const Workspace<T> workspace(in_, 2, 2);
      const PreparedKeys<T> prepared(in_, context_.padding, std::min(split_.size, in_.keys()));
      for (int64_t i = begin; i < end; ++i) {
        const auto [head, range] = task(i);
        backward_of_keys(workspace, prepared, head, range);
      }
    });
    if (split_.count > 1) add_partial();
    dk_.finish();
    dv_.finish();
  }

 private:
  /// The gradients by way of one range of a head's keys.
  void backward_of_keys(const Workspace<T>& workspace, const PreparedKeys<T>& prepared, int64_t head,
                        int64_t range) const {
    const int64_t count = context_.padding.count(head);
    const int64_t begin = std::min(range * split_.size, count), end = std::min(begin + split_.size, count);
    const HeadKeys<T> keys = prepared.load(head, begin, end, 0);
    const Rows<T> dk = dk_.rows(head), dv = dv_.rows(head);
    const Rows<T> all_dq = query_gradients(range, head);
    // The first tile that contributes to a gradient writes it; gradients without a tile are set to 0 here.
    const int64_t first_query = first_query_tile(head, begin, end);
    const int64_t last_query = std::min(first_query + kQueries, in_.queries()) - 1;
    const int64_t written = first_query > last_query ? begin : std::min(end, context_.visible(head, last_query));
    clear(all_dq, 0, first_query);
    clear(dk, written, end);
    clear(dv, written, end);
    int64_t read_until = begin;  // rows of keys before this one have been read, and are cached
    for (int64_t first = first_query; first < in_.queries(); first += kQueries) {
      QueryTile<T> query_tile(context_, keys, workspace, head, first);
      const Rows<const T> g = rows_of<const T>(d_o_, head).from(first);
      query_tile.to_columns(g, 1, workspace.columns(1));
      const QueryFactors<T> factors = query_factors(query_tile, head, first);
      const Rows<T> dq = all_dq.from(first);
      fetch_rows(dq, query_tile.rows(), in_.width());
      for (int64_t from = begin; from < std::min(end, query_tile.seen_by_any()); from += kKeys) {
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
        query_tile.sum_visible(ds, keys.k(from), from, dq, from > begin);
        fetch_rows(dk.from(from), unread, in_.width());
        query_tile.sum_by_key(ds, query_tile.queries(), dk.from(from), first > first_query);
        fetch_rows(dv.from(from), unread, in_.width());
        query_tile.sum_by_key(weights, g, dv.from(from), first > first_query);
        read_until = std::max(read_until, from + ds.keys);
      }
      query_tile.through_map(dq);
    }
    if (in_.maps()) keys.mapped.differentiate(end - begin, dk.from(begin));
  }

  void clear(Rows<T> rows, int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) std::fill_n(rows[r], in_.width(), T{0});
  }

  /// The first query of the first tile of queries that sees any of the keys [begin, end).
  int64_t first_query_tile(int64_t head, int64_t begin, int64_t end) const {
    if (begin == end) return in_.queries();
    const int64_t causal_offset = in_.params.causal ? in_.keys() - in_.queries() : in_.keys();
    return std::max(context_.padding.position(head, begin) - causal_offset, int64_t{0}) / kQueries * kQueries;
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
    return factors;
  }

  /// The gradients of all queries by way of one range of keys: in the result for the first range, in `partial_` for
  /// the others.
  Rows<T> query_gradients(int64_t range, int64_t head) const {
    if (range == 0) return rows_of<T>(dq_, head);
    return {partial_.data() + ((range - 1) * in_.heads() + head) * in_.queries() * in_.width(), in_.width()};
  }

  /// Adds the gradients of queries from all ranges of keys, in order.
  void add_partial() const {
    const int64_t query_tiles = ceil_div(in_.queries(), kQueries);
    parallel_for(in_.heads() * query_tiles, kGrain / (split_.count * kQueries * in_.width()) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t head = task / query_tiles, first = task % query_tiles * kQueries;
                     const int64_t rows = std::min(kQueries, in_.queries() - first);
                     const Rows<T> dq = query_gradients(0, head).from(first);
                     for (int64_t range = 1; range < split_.count; ++range) {
                       const Rows<T> more = query_gradients(range, head).from(first);
                       for (int64_t r = 0; r < rows; ++r) add(dq[r], more[r], in_.width());
                     }
                   }
                 });
  }

  const AttentionInputs& in_;
  AttentionContext<T> context_;
  KeySplit split_;
  const View &dq_, &d_o_, &o_, &denominator_;
  KeyGradients<T> dk_, dv_;
  Scratch<T> partial_;
};

void attention_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                        const View* padding_mask, AttentionParams params) {
  const AttentionInputs in{q, k, v, padding_mask, params};
  dispatch_floating(o.dtype, [&]<class T>(T) { Backward<T>(in, dq, dk, dv, d_o, o, denominator).run(); });
}

}  // namespace

void fill_attention_backward(Backend& table) { table.attention_backward = attention_backward; }

}  // namespace linnet::cpu::LINNET_ISA
