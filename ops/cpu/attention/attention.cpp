#include <linnet/ops/cpu/attention/query_tile.h>

/// Quadratic attention, tile by tile: softmax (Vaswani et al. 2017, eq. 1) and the polynomial weights of Fastmax
/// (Gerami et al. 2024, eqs. 7–12), which differ in how scores become weights. Only one tile of scores exists at a
/// time, so memory apart from the results is linear in the keys. It is compute-bound: by the matrix products of
/// tiles, and one exponential for each score of softmax.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Prepares the keys of all heads; those of head h are in the rows from h · M on.
template <class T>
void load_all(const AttentionContext<T>& context, const PreparedKeys<T>& prepared) {
  const AttentionInputs& in = context.in;
  if (in.mask.padding == nullptr && !in.maps()) return;
  const int64_t key_tiles = ceil_div(in.keys(), kKeys);
  constexpr int64_t kCost = 8;  // the cost of one element, in additions
  parallel_for(in.heads() * key_tiles, kGrain / (kCost * kKeys * std::max(in.width(), int64_t{1})) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t head = task / key_tiles, first = task % key_tiles * kKeys;
                   const int64_t last = std::min(first + kKeys, context.padding.count(head));
                   if (first < last) prepared.load(head, first, last, head * in.keys() + first);
                 }
               });
}

/// Writes the outputs and denominators of a tile of queries, from `first` on:
///   o_i = Σ_j f(s_ij) v_j / Σ_j f(s_ij)                               [Vaswani eq.1] [FAST eq.7] [FAST eq.12]
template <class T>
void forward(const AttentionContext<T>& context, const HeadKeys<T>& keys, const Workspace<T>& workspace, int64_t head,
             int64_t first, const View& o, const View& denominator) {
  const AttentionInputs& in = context.in;
  QueryTile<T> query_tile(context, keys, workspace, head, first);
  const Rows<T> out = rows_of<T>(o, head).from(first);
  fetch_rows(out, query_tile.rows(), in.width());
  T* denominators = data<T>(denominator) + head * in.queries() + first;
  Totals<T> sums;
  bool add = in.params.accumulate;
  if (add) sums.resume(denominators, query_tile.rows());
  int64_t from = query_tile.seen_by_any().begin;
  do {  // runs once even without keys, to write the zeros
    const ScoreTile<T> weights = query_tile.tile(from, in.keys(), workspace.tile(0));
    fetch_rows(keys.k(from), weights.keys, in.width());
    fetch_rows(keys.v(from), weights.keys, in.width());
    query_tile.scores(weights, from);
    query_tile.weigh(weights, from, sums);
    query_tile.draw(weights, from);
    query_tile.drop(weights);
    if (in.params.kind.softmax && add) {
      for (int64_t r = 0; r < query_tile.rows(); ++r) scale_by(out[r], sums.rescale[r], in.width());
    }
    query_tile.sum_visible(weights, keys.v(from), from, out, add);
    add = true;
    from += kKeys;
  } while (from < query_tile.seen_by_any().end);

  for (int64_t r = 0; r < query_tile.rows(); ++r) {
    const KeyRange seen = query_tile.visible(r);
    if (seen.begin == seen.end) continue;
    scale_by(out[r], sums.total[r] == 0 ? T{0} : 1 / sums.total[r], in.width());  // 0 if all scores are −∞
  }
  // Backward computes the weights again from the denominators.
  if (!in.params.kind.softmax) {
    std::copy_n(sums.total, query_tile.rows(), denominators);
    return;
  }
#pragma omp simd
  for (int64_t r = 0; r < query_tile.rows(); ++r) {
    denominators[r] = sums.maximum[r] + static_cast<T>(kLog2E) * vec::log(sums.total[r]);
  }
}

void attention(View o, View denominator, View q, View k, View v, AttentionMask mask, AttentionParams params) {
  const AttentionInputs in{q, k, v, mask, params};
  const int64_t query_tiles = ceil_div(in.queries(), kQueries);
  dispatch_floating(o.dtype, [&]<class T>(T) {
    const AttentionContext<T> context(in);
    // Keys that several tasks read are prepared first. With one task to a head, the task prepares them in its own
    // cache.
    const PreparedKeys<T> shared(in, context.padding, query_tiles > 1 ? in.heads() * in.keys() : 0);
    if (query_tiles > 1) load_all(context, shared);
    in.for_heads(query_tiles, kQueries, [&](int64_t begin, int64_t end, auto task) {
      const Workspace<T> workspace(in, 1, 1);
      const PreparedKeys<T> own(in, context.padding, query_tiles > 1 ? 0 : in.keys());
      for (int64_t i = begin; i < end; ++i) {
        const auto [head, index] = task(i);
        const HeadKeys<T> keys = query_tiles > 1 ? shared.at(head, 0, head * in.keys())
                                                 : own.load(head, 0, context.padding.count(head), 0);
        // The last tiles of a causal sequence have the most work, and so come first.
        forward(context, keys, workspace, head, (query_tiles - 1 - index) * kQueries, o, denominator);
      }
    });
  });
}

}  // namespace

void fill_attention(Backend& table) { table.attention = attention; }

}  // namespace linnet::cpu::LINNET_ISA
