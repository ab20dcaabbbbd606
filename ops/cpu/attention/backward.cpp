#include <linnet/ops/cpu/attention/block.h>
#include <linnet/ops/cpu/device/row_sums.h>

/// The backward pass of attention.cpp: weights are made again, tile by tile, from the normalisers that were kept, and
/// each tile gives five matrix products. A task has some keys of a head and all of its queries, so that the gradients
/// of keys and values are sums in a fixed order; those of queries are added up over the tasks, in order too. The
/// products bound it, then the exponentials; its tiles stay in a core's own caches.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Enough tasks that a slow core does not hold up four; heads are cut, at whole tiles, only where they are fewer.
constexpr int64_t kTasks = 16;

/// The keys of a head in parts.
struct Parts {
  int64_t count, size;

  Parts(int64_t heads, int64_t keys) {
    const int64_t tiles = std::max(ceil_div(keys, kKeys), int64_t{1});
    const int64_t wanted = std::min((kTasks - 1) / std::max(heads, int64_t{1}) + 1, tiles);
    size = ceil_div(tiles, wanted) * kKeys;
    count = std::max(ceil_div(keys, size), int64_t{1});
  }
};

/// Where the gradients of a head's keys (or values) are summed: in place, or where there is padding in rows of the
/// others alone, which `finish` spreads out.
template <class T>
class KeyGradients {
 public:
  KeyGradients(const Attention<T>& all, const View& result)
      : all_(all),
        result_(result),
        compact_(all.in.padding_mask != nullptr ? all.in.heads() * all.in.keys() * width() : 0) {}

  Rows<T> rows(int64_t head) const {
    if (all_.in.padding_mask == nullptr) return rows_of<T>(result_, head);
    return {compact_.data() + head * all_.in.keys() * width(), width()};
  }

  void finish() const {
    if (all_.in.padding_mask == nullptr) return;
    parallel_tasks(all_.in.heads(), [&](int64_t head) {
      const Rows<T> from = rows(head), to = rows_of<T>(result_, head);
      for (int64_t p = 0; p < all_.in.keys(); ++p) std::fill_n(to[p], width(), T{0});
      for (int64_t j = 0; j < all_.padding.count(head); ++j) {
        std::copy_n(from[j], width(), to[all_.padding.position(head, j)]);
      }
    });
  }

 private:
  int64_t width() const { return all_.in.width(); }

  const Attention<T>& all_;
  const View& result_;
  Scratch<T> compact_;
};

template <class T>
class Backward {
 public:
  Backward(const AttentionInputs& in, const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
           const View& denominator)
      : in_(in),
        all_(in),
        parts_(in_.heads(), in_.keys()),
        dq_(dq),
        d_o_(d_o),
        o_(o),
        normaliser_(denominator),
        dk_(all_, dk),
        dv_(all_, dv),
        partial_((parts_.count - 1) * in_.heads() * in_.queries() * in_.width()) {}

  void run() const {
    // Of causal heads the first keys have the most queries: their parts come first.
    in_.for_heads(parts_.count, in_.queries(), [&](int64_t begin, int64_t end, auto task) {
      const Workspace<T> workspace(in_, 2, 2);
      const KeyMemory<T> memory(in_, all_.padding, std::min(parts_.size, in_.keys()));
      for (int64_t i = begin; i < end; ++i) {
        const auto [head, part] = task(i);
        keys_of(workspace, memory, head, part);
      }
    });
    if (parts_.count > 1) join();
    dk_.finish();
    dv_.finish();
  }

 private:
  /// The gradients from one part of a head's keys.
  void keys_of(const Workspace<T>& workspace, const KeyMemory<T>& memory, int64_t head, int64_t part) const {
    const int64_t count = all_.padding.count(head);
    const int64_t begin = std::min(part * parts_.size, count), end = std::min(begin + parts_.size, count);
    const Keys<T> keys = memory.load(head, begin, end, 0);
    const Rows<T> dk = dk_.rows(head), dv = dv_.rows(head);
    const Rows<T> all_dq = query_gradients(part, head);
    // Every gradient is written by the first block and tile that it is a sum over, or is 0.
    const int64_t first_query = first_block(head, begin, end);
    const int64_t last_query = std::min(first_query + kQueries, in_.queries()) - 1;
    const int64_t written = first_query > last_query ? begin : std::min(end, all_.visible(head, last_query));
    clear(all_dq, 0, first_query);
    clear(dk, written, end);
    clear(dv, written, end);
    int64_t near = begin;  // the rows of keys before it have been read
    for (int64_t first = first_query; first < in_.queries(); first += kQueries) {
      Block<T> block(all_, keys, workspace, head, first);
      const Rows<const T> g = rows_of<const T>(d_o_, head).from(first);
      block.to_columns(g, 1, workspace.columns(1));
      const Slopes<T> slopes = slopes_of(block, head, first);
      const Rows<T> dq = all_dq.from(first);
      fetch_rows(dq, block.rows(), in_.width());
      for (int64_t from = begin; from < std::min(end, block.seen_by_any()); from += kKeys) {
        const Tile<T> weights = block.tile(from, end, workspace.tile(0));
        const Tile<T> ds = block.tile(from, end, workspace.tile(1));
        const int64_t unread = from < near ? 0 : ds.keys;
        fetch_rows(keys.k(from), unread, in_.width());
        block.scores(weights, from);
        fetch_rows(keys.v(from), unread, in_.width());
        block.products(ds, keys.v(from), workspace.columns(1));
        block.draw(ds, from);
        block.drop(ds);
        block.differentiate(weights, ds, from, slopes);
        block.drop(weights);
        block.sum_visible(ds, keys.k(from), from, dq, from > begin);
        fetch_rows(dk.from(from), unread, in_.width());
        block.sum_by_key(ds, block.queries(), dk.from(from), first > first_query);
        fetch_rows(dv.from(from), unread, in_.width());
        block.sum_by_key(weights, g, dv.from(from), first > first_query);
        near = std::max(near, from + ds.keys);
      }
      block.through_standardisation(dq);
    }
    if (in_.params.standardise) keys.standardised.differentiate(end - begin, dk.from(begin));
  }

  void clear(Rows<T> rows, int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) std::fill_n(rows[r], in_.width(), T{0});
  }

  /// The first block of queries that sees any of the keys [begin, end).
  int64_t first_block(int64_t head, int64_t begin, int64_t end) const {
    if (begin == end) return in_.queries();
    const int64_t causal_offset = in_.params.causal ? in_.keys() - in_.queries() : in_.keys();
    return std::max(all_.padding.position(head, begin) - causal_offset, int64_t{0}) / kQueries * kQueries;
  }

  Slopes<T> slopes_of(const Block<T>& block, int64_t head, int64_t first) const {
    const Rows<const T> g = rows_of<const T>(d_o_, head).from(first);
    const Rows<const T> y = rows_of<const T>(o_, head).from(first);
    fetch_rows(y, block.rows(), in_.width());
    Slopes<T> slopes;
    with_width<T>(in_.width(), [&](auto width) {
      dot_rows(block.rows(), [&](int64_t r) { return g[r]; }, [&](int64_t r) { return y[r]; }, slopes.delta, width);
    });
    std::copy_n(data<T>(normaliser_) + head * in_.queries() + first, block.rows(), slopes.denominator);
    return slopes;
  }

  /// Where a part of the keys leaves the gradients of all queries: the first one in the result.
  Rows<T> query_gradients(int64_t part, int64_t head) const {
    if (part == 0) return rows_of<T>(dq_, head);
    return {partial_.data() + ((part - 1) * in_.heads() + head) * in_.queries() * in_.width(), in_.width()};
  }

  void join() const {
    const int64_t blocks = ceil_div(in_.queries(), kQueries);
    parallel_for(in_.heads() * blocks, kGrain / (parts_.count * kQueries * in_.width()) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t head = task / blocks, first = task % blocks * kQueries;
                     const int64_t rows = std::min(kQueries, in_.queries() - first);
                     const Rows<T> dq = query_gradients(0, head).from(first);
                     for (int64_t part = 1; part < parts_.count; ++part) {
                       const Rows<T> more = query_gradients(part, head).from(first);
                       for (int64_t r = 0; r < rows; ++r) add(dq[r], more[r], in_.width());
                     }
                   }
                 });
  }

  const AttentionInputs& in_;
  Attention<T> all_;
  Parts parts_;
  const View &dq_, &d_o_, &o_, &normaliser_;
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
