#include <linnet/cuda/fastmax/fastmax_mma.cuh>

#include <algorithm>

#include <linnet/cuda/attention/standardise.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastmax/summary.cuh>

/// A sweep over the tokens of one side, chunk by chunk (sum_units), whose sums become the states of what is before or
/// behind each chunk (pack_states), and then the kernels of quadratic attention for tiles of the other side, which
/// read a state for the chunks that all of the tile see, and make weights for the rest. The states of some chunks are
/// held at a time, so that memory grows with N·D alone.

namespace linnet::cuda {
namespace {

/// Tokens of a chunk where all of them are summed up.
constexpr int64_t kTogether = 1024;

/// Chunks of each head whose states are held at a time at least, where there is memory for as many. For the next ones
/// their sums are carried on, whose words have eight times as many bytes to write and read as a state's.
constexpr int64_t kFewestChunks = 4;

/// Tokens of a chunk, when causal: states cost the more memory traffic the shorter it is, and weights inside of it
/// the more time the longer.
int64_t chunk_of(int width, bool linear) { return linear ? 2 * kMmaTile : int64_t{16} * width; }

/// For the weights inside of chunks.
AttentionParams weights_of(const FastmaxParams& params) {
  AttentionParams weights{};
  weights.kind = {false, params.a0, params.a1, params.a2};
  weights.scale = 1;
  weights.causal = params.causal;
  return weights;
}

/// What a sweep makes of its sums: StateOfValues, StateOfGradients or both.
enum class States { values, gradients, both };

template <int kWidth, class E>
class Sweeps {
 public:
  Sweeps(const View& q, const View& k, const View& v, const View* padding_mask, const FastmaxParams& params,
         const FirstQueries& first_queries)
      : in_(q, k, v, padding_mask, weights_of(params), first_queries), feature_groups_{in_.a0, in_.a1, in_.a2} {}

  void forward(const View& o, const View& denominator) const {
    sweep(KeySide<E>(), States::values, [&](const HeadTiles& tiles, const Summary<kWidth>& summary) {
      launch(attend_mma<kWidth, E, Summary<kWidth>>, tiles.count(), kMmaThreads, in_, Heads<E>(o),
             data<float>(denominator), tiles, summary);
    });
  }

  void backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                const View& denominator) const {
    const Scratch<float> delta(heads() * in_.queries);
    const auto from = with_deltas(in_, d_o, o, denominator, delta);
    sweep(KeySide<E>(), States::gradients, [&](const HeadTiles& tiles, const Summary<kWidth>& summary) {
      launch(attend_backward_queries_mma<kWidth, E, Summary<kWidth>>, tiles.count(), kMmaThreads, in_, from,
             Heads<E>(dq), tiles, summary);
    });
    sweep(QuerySide<E>{from}, States::both, [&](const HeadTiles& tiles, const Summary<kWidth>& summary) {
      launch(attend_backward_keys_mma<kWidth, E, Summary<kWidth>>, tiles.count(), kMmaThreads, in_, from,
             Heads<E>(dk), Heads<E>(dv), tiles, summary);
    });
  }

 private:
  int64_t heads() const { return in_.batch * in_.heads; }

  /// Of the first tiles, how many of queries have fewer than `chunks` chunks of keys summed up; and in reverse, how
  /// many of keys have queries left to weigh up to chunk `chunks` at most. The inverse of what Summary says of a
  /// tile.
  int64_t tiles_until(int64_t chunks, const ChunkGroup& chunk_group) const {
    const int64_t all = chunk_group.reverse ? in_.key_tiles() : in_.query_tiles();
    if (chunks <= 0) return 0;
    if (chunks >= chunk_group.all_chunks()) return all;
    const int64_t causal_offset = in_.keys - in_.queries;
    const int64_t rows =
        chunks * chunk_group.chunk + (chunk_group.reverse ? causal_offset + 1 : kMmaTile - 1 - causal_offset);
    return std::clamp(rows / kMmaTile, int64_t{0}, all);
  }
  /// The tiles that need these states; with the first of them, those that need none.
  HeadTiles tiles_of(const ChunkGroup& chunk_group) const {
    const int64_t end = chunk_group.step + chunk_group.chunks, all = chunk_group.all_chunks();
    const int64_t before = chunk_group.step == 0 ? 0 : chunk_group.step + 1;
    const int64_t first = tiles_until(chunk_group.reverse ? all - end - 1 : before, chunk_group);
    const int64_t last = tiles_until(chunk_group.reverse ? all - before : end + 1, chunk_group);
    return {chunk_group.head, chunk_group.heads, first, last - first};
  }

  /// Calls `use(tiles, summary)` for all tiles, with what is summed up of `side`: for groups of chunks when causal;
  /// else of all tokens, for some heads.
  template <class Side, class Use>
  void sweep(const Side& side, States states, const Use& use) const {
    constexpr bool reverse = Side::kReverse;
    const StateOfValues<kWidth> of_values{feature_groups_};
    const StateOfGradients<kWidth> of_gradients{feature_groups_};
    const int64_t value_words = states == States::gradients ? 0 : of_values.words();
    const int64_t gradient_words = states == States::values ? 0 : of_gradients.words();
    const int64_t words = value_words + gradient_words;
    const int64_t tokens = reverse ? in_.queries : in_.keys;
    const int64_t chunk = in_.causal ? chunk_of(kWidth, in_.a2 == 0) : kTogether;
    const int64_t chunks = ceil_div(tokens, chunk) - (in_.causal ? 1 : 0);  // the last is in no state then
    const int64_t of_chunk = 4 * (feature_groups_.sums() + words),
                  of_head = 16 * words;  // bytes; a head's are carried on
    const int64_t most = kStateBytes / (std::min(chunks, kFewestChunks) * of_chunk + of_head);
    const int64_t batch = std::clamp(most, int64_t{1}, heads());
    const int64_t group = std::min(std::max((kStateBytes / batch - of_head) / of_chunk, int64_t{1}), chunks);
    const int64_t held = batch * (in_.causal ? group : 1);
    const Scratch<float> sums(batch * group * feature_groups_.sums());
    const Scratch<uint32_t> value_states(held * value_words), gradient_states(held * gradient_words);
    const int64_t carries = group < chunks ? 2 * batch : 0;
    const Scratch<double> carried_values(carries * value_words), carried_gradients(carries * gradient_words);
    for (int64_t head = 0; head < heads(); head += batch) {
      const int64_t some = std::min(batch, heads() - head);
      int64_t step = 0;
      do {  // once even where no chunk is summed up
        const ChunkGroup chunk_group{head, some, step, std::min(group, chunks - step), chunk, tokens, reverse};
        if (chunk_group.chunks > 0) {
          launch(sum_feature_groups<kWidth, E, Side>,
                 chunk_group.count() * ceil_div(feature_groups_.count(), kFeatureGroupsOfBlock<kWidth>), kMmaThreads,
                 in_, side, feature_groups_, chunk_group, sums.data());
          const auto pack = [&](const auto& state, const Scratch<double>& carried, const Scratch<uint32_t>& to) {
            launch(pack_states<std::decay_t<decltype(state)>>, blocks_for(some * state.words()), kThreads, state,
                   chunk_group, sums.data(), carried.data(), to.data(), !in_.causal);
          };
          if (value_words > 0) pack(of_values, carried_values, value_states);
          if (gradient_words > 0) pack(of_gradients, carried_gradients, gradient_states);
        }
        if (in_.causal)
          use(tiles_of(chunk_group), {feature_groups_, chunk_group, value_states.data(), gradient_states.data()});
        step += group;
      } while (step < chunks);
      const ChunkGroup total{head, some, 0, 1, tokens, tokens, reverse};
      if (!in_.causal) use(tiles_of(total), {feature_groups_, total, value_states.data(), gradient_states.data()});
    }
  }

  Quadratic<float, E> in_;
  FeatureGroups<kWidth> feature_groups_;
};

}  // namespace

bool fastmax_mma(View o, View denominator, View q, View k, View v, const View* padding_mask,
                 const FastmaxParams& params) {
  if (params.keep_of_256 < 256) return false;
  return dispatch_mma(q, [&](auto width, auto zero) {
    const FirstQueries first_queries(q, k, padding_mask, params.causal);
    const auto run = [&](const View& queries, const View& keys) {
      Sweeps<decltype(width)::value, decltype(zero)>(queries, keys, v, padding_mask, params, first_queries)
          .forward(o, denominator);
    };
    if (!params.standardise) return run(q, k);
    run(Standardised(q, nullptr, first_queries.of()).view(), Standardised(k, padding_mask, {}).view());
  });
}

bool fastmax_mma_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                          const View* padding_mask, const FastmaxParams& params) {
  if (params.keep_of_256 < 256) return false;
  return dispatch_mma(q, [&](auto width, auto zero) {
    const FirstQueries first_queries(q, k, padding_mask, params.causal);
    const auto run = [&](const View& queries, const View& keys) {
      Sweeps<decltype(width)::value, decltype(zero)>(queries, keys, v, padding_mask, params, first_queries)
          .backward(dq, dk, dv, d_o, o, denominator);
    };
    if (!params.standardise) return run(q, k);
    const Standardised queries(q, nullptr, first_queries.of()), keys(k, padding_mask, {});
    run(queries.view(), keys.view());
    queries.differentiate(dq);
    keys.differentiate(dk);
  });
}

}  // namespace linnet::cuda
