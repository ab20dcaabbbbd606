#include <linnet/ops/cpu/attention/block.h>

/// Quadratic attention, tile by tile: softmax (Vaswani et al. 2017, eq. 1) and the polynomial weights of Fastmax
/// (Gerami et al. 2024, eqs. 7–9) in one skeleton. Scores exist for a tile at a time, so that memory beside the
/// results is linear in the keys, and what bounds the time is arithmetic: the matrix products of tiles, and one
/// exponential for each score.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Makes the keys of all heads ready, those of each in rows from the number of keys before it on.
template <class T>
void load_all(const Attention<T>& all, const KeyMemory<T>& memory) {
  const AttentionInputs& in = all.in;
  if (in.padding_mask == nullptr && !in.params.standardise) return;
  const int64_t pieces = ceil_div(in.keys(), kKeys);
  constexpr int64_t kCost = 8;  // of an element, in additions
  parallel_for(in.heads() * pieces, kGrain / (kCost * kKeys * std::max(in.width(), int64_t{1})) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t head = task / pieces, first = task % pieces * kKeys;
                   const int64_t last = std::min(first + kKeys, all.padding.count(head));
                   if (first < last) memory.load(head, first, last, head * in.keys() + first);
                 }
               });
}

/// Writes the outputs and normalisers of the block of queries from `first` on:  o_i = Σ_j f(s_ij) v_j / Σ_j f(s_ij)
template <class T>
void forward(const Attention<T>& all, const Keys<T>& keys, const Workspace<T>& workspace, int64_t head, int64_t first,
             const View& o, const View& denominator) {
  const AttentionInputs& in = all.in;
  Block<T> block(all, keys, workspace, head, first);
  const Rows<T> out = rows_of<T>(o, head).from(first);
  fetch_rows(out, block.rows(), in.width());
  Totals<T> sums;
  int64_t from = 0;
  do {  // once even where there are no keys, for the zeros
    const Tile<T> weights = block.tile(from, in.keys(), workspace.tile(0));
    fetch_rows(keys.k(from), weights.keys, in.width());
    fetch_rows(keys.v(from), weights.keys, in.width());
    block.scores(weights, from);
    block.weigh(weights, from, sums);
    block.draw(weights, from);
    block.drop(weights);
    if (in.params.kind.softmax && from > 0) {
      for (int64_t r = 0; r < block.rows(); ++r) scale_by(out[r], sums.shrunk[r], in.width());
    }
    block.sum_visible(weights, keys.v(from), from, out, from > 0);
    from += kKeys;
  } while (from < block.seen_by_any());

  for (int64_t r = 0; r < block.rows(); ++r) {
    if (block.visible(r) > 0) scale_by(out[r], 1 / sums.total[r], in.width());
  }
  // What backward needs to make the weights again.
  T* to = data<T>(denominator) + head * in.queries() + first;
  if (!in.params.kind.softmax) {
    std::copy_n(sums.total, block.rows(), to);
    return;
  }
#pragma omp simd
  for (int64_t r = 0; r < block.rows(); ++r) {
    to[r] = sums.maximum[r] + static_cast<T>(kLog2E) * vec::log(sums.total[r]);
  }
}

void attention(View o, View denominator, View q, View k, View v, const View* padding_mask, AttentionParams params) {
  const AttentionInputs in{q, k, v, padding_mask, params};
  const int64_t blocks = ceil_div(in.queries(), kQueries);
  dispatch_floating(o.dtype, [&]<class T>(T) {
    const Attention<T> all(in);
    // Keys that several tasks read are made ready before: with one block each, a task has its own near to its core.
    const KeyMemory<T> shared(in, all.padding, blocks > 1 ? in.heads() * in.keys() : 0);
    if (blocks > 1) load_all(all, shared);
    in.for_heads(blocks, kQueries, [&](int64_t begin, int64_t end, auto task) {
      const Workspace<T> workspace(in, 1, 1);
      const KeyMemory<T> own(in, all.padding, blocks > 1 ? 0 : in.keys());
      for (int64_t i = begin; i < end; ++i) {
        const auto [head, piece] = task(i);
        const Keys<T> keys =
            blocks > 1 ? shared.at(head, 0, head * in.keys()) : own.load(head, 0, all.padding.count(head), 0);
        // The last blocks of a causal sequence have the most to do, and so come first.
        forward(all, keys, workspace, head, (blocks - 1 - piece) * kQueries, o, denominator);
      }
    });
  });
}

}  // namespace

void fill_attention(Backend& table) { table.attention = attention; }

}  // namespace linnet::cpu::LINNET_ISA
