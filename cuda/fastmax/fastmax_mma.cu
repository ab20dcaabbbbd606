#include <linnet/cuda/fastmax/fastmax_mma.cuh>

#include <algorithm>

#include <linnet/cuda/attention/mapped_rows.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastmax/inter_chunk.cuh>

/// Fastmax in its factorised form on tensor cores. A sweep sums the features of one side (queries or keys) chunk by
/// chunk (sum_feature_groups), and adds these sums up to the states before or after each chunk (pack_states). The
/// kernels of quadratic attention then loop over tiles of the other side. They read one state for all chunks that the
/// whole tile sees, and compute weights for the other tokens. The states of one group of chunks are in memory at a
/// time, so that memory grows only with N·D.

namespace linnet::cuda {
namespace {

/// The number of tokens of a chunk when not causal.
constexpr int64_t kFullChunk = 1024;

/// The least number of chunks of each head that a group should have, if kStateBytes allows. The sums that are carried
/// on to the next group cost eight times the bytes of a state's words.
constexpr int64_t kMinChunks = 4;

/// The number of tokens of a chunk when causal. Shorter chunks cost more memory traffic for states, and longer ones
/// more time for intra-chunk weights.
int64_t chunk_of(int width, bool linear) { return linear ? 2 * kMmaTile : int64_t{16} * width; }

/// The parameters of the intra-chunk weights.
AttentionParams intra_chunk_params(const FastmaxParams& params) {
  AttentionParams result{};
  result.kind = {false, params.a0, params.a1, params.a2};
  result.scale = 1;
  result.causal = params.causal;
  return result;
}

/// The states that a sweep packs: StateOfValues, StateOfGradients or both.
enum class SweepStates { values, gradients, both };

template <int kWidth, class E>
class Sweeps {
 public:
  Sweeps(const View& q, const View& k, const View& v, const View* padding_mask, const FastmaxParams& params,
         const FirstQueries& first_queries)
      : in_(q, k, v, {.padding = padding_mask}, intra_chunk_params(params), first_queries),
        feature_groups_{in_.a0, in_.a1, in_.a2} {}

  void forward(const View& o, const View& denominator) const {
    sweep(KeySource<E>(), SweepStates::values, [&](const HeadTiles& tiles, const InterChunk<kWidth>& inter_chunk) {
      launch(attend_mma<kWidth, E, InterChunk<kWidth>>, tiles.count(), kMmaThreads, in_, HeadsView<E>(o),
             data<float>(denominator), tiles, inter_chunk);
    });
  }

  void backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                const View& denominator) const {
    const Scratch<float> delta(heads() * in_.queries);
    const auto from = with_deltas(in_, d_o, o, denominator, delta);
    sweep(KeySource<E>(), SweepStates::gradients, [&](const HeadTiles& tiles, const InterChunk<kWidth>& inter_chunk) {
      launch(attend_backward_queries_mma<kWidth, E, InterChunk<kWidth>>, tiles.count(), kMmaThreads, in_, from,
             HeadsView<E>(dq), tiles, inter_chunk);
    });
    sweep(QuerySource<E>{from}, SweepStates::both,
          [&](const HeadTiles& tiles, const InterChunk<kWidth>& inter_chunk) {
            launch(attend_backward_keys_mma<kWidth, E, InterChunk<kWidth>>, tiles.count(), kMmaThreads, in_, from,
                   HeadsView<E>(dk), HeadsView<E>(dv), tiles, inter_chunk);
          });
  }

 private:
  int64_t heads() const { return in_.batch * in_.heads; }

  /// The number of query tiles whose state has fewer than `chunks` chunks of keys. In reverse, the number of key
  /// tiles whose intra-chunk queries end at chunk `chunks` at the latest. This inverts InterChunk::chunks_before and
  /// chunk_behind.
  int64_t tiles_until(int64_t chunks, const ChunkGroup& chunk_group) const {
    const int64_t all = chunk_group.reverse ? in_.key_tiles() : in_.query_tiles();
    if (chunks <= 0) return 0;
    if (chunks >= chunk_group.all_chunks()) return all;
    const int64_t causal_offset = in_.keys - in_.queries;
    const int64_t rows =
        chunks * chunk_group.chunk_size + (chunk_group.reverse ? causal_offset + 1 : kMmaTile - 1 - causal_offset);
    return std::clamp(rows / kMmaTile, int64_t{0}, all);
  }
  /// The tiles that read this group's states. Tiles that read no state belong to the first group.
  HeadTiles tiles_of(const ChunkGroup& chunk_group) const {
    const int64_t end = chunk_group.first_chunk + chunk_group.chunks, all = chunk_group.all_chunks();
    const int64_t before = chunk_group.first_chunk == 0 ? 0 : chunk_group.first_chunk + 1;
    const int64_t first = tiles_until(chunk_group.reverse ? all - end - 1 : before, chunk_group);
    const int64_t last = tiles_until(chunk_group.reverse ? all - before : end + 1, chunk_group);
    return {chunk_group.first_head, chunk_group.heads, first, last - first};
  }

  /// Calls `use(tiles, inter_chunk)` for all tiles of the other side, with the states of `source`'s tokens. When
  /// causal, it goes group by group of chunks; otherwise the state is the sum over all tokens, and it goes batch by
  /// batch of heads.
  template <class Source, class Use>
  void sweep(const Source& source, SweepStates states, const Use& use) const {
    constexpr bool reverse = Source::kReverse;
    const StateOfValues<kWidth> of_values{feature_groups_};
    const StateOfGradients<kWidth> of_gradients{feature_groups_};
    const int64_t value_words = states == SweepStates::gradients ? 0 : of_values.words();
    const int64_t gradient_words = states == SweepStates::values ? 0 : of_gradients.words();
    const int64_t words = value_words + gradient_words;
    const int64_t tokens = reverse ? in_.queries : in_.keys;
    const int64_t chunk = in_.causal ? chunk_of(kWidth, in_.a2 == 0) : kFullChunk;
    const int64_t chunks = ceil_div(tokens, chunk) - (in_.causal ? 1 : 0);  // causal: no state has the last chunk
    const int64_t chunk_bytes = 4 * (feature_groups_.sums() + words);
    const int64_t carried_bytes = 16 * words;  // of a head
    const int64_t most = kStateBytes / (std::min(chunks, kMinChunks) * chunk_bytes + carried_bytes);
    const int64_t batch = std::clamp(most, int64_t{1}, heads());
    const int64_t group = std::min(std::max((kStateBytes / batch - carried_bytes) / chunk_bytes, int64_t{1}), chunks);
    const int64_t held = batch * (in_.causal ? group : 1);
    const Scratch<float> sums(batch * group * feature_groups_.sums());
    const Scratch<uint32_t> value_states(held * value_words), gradient_states(held * gradient_words);
    const int64_t carries = group < chunks ? 2 * batch : 0;
    const Scratch<double> carried_values(carries * value_words), carried_gradients(carries * gradient_words);
    for (int64_t head = 0; head < heads(); head += batch) {
      const int64_t batch_heads = std::min(batch, heads() - head);
      int64_t first_chunk = 0;
      do {  // once even if no state has a chunk
        const ChunkGroup chunk_group{head,  batch_heads, first_chunk, std::min(group, chunks - first_chunk),
                                     chunk, tokens,      reverse};
        if (chunk_group.chunks > 0) {
          launch(sum_feature_groups<kWidth, E, Source>,
                 chunk_group.count() * ceil_div(feature_groups_.count(), kFeatureGroupsOfBlock<kWidth>), kMmaThreads,
                 in_, source, feature_groups_, chunk_group, sums.data());
          const auto pack = [&](const auto& state, const Scratch<double>& carried, const Scratch<uint32_t>& to) {
            launch(pack_states<std::decay_t<decltype(state)>>, blocks_for(batch_heads * state.words()), kThreads,
                   state, chunk_group, sums.data(), carried.data(), to.data(), !in_.causal);
          };
          if (value_words > 0) pack(of_values, carried_values, value_states);
          if (gradient_words > 0) pack(of_gradients, carried_gradients, gradient_states);
        }
        if (in_.causal)
          use(tiles_of(chunk_group), {feature_groups_, chunk_group, value_states.data(), gradient_states.data()});
        first_chunk += group;
      } while (first_chunk < chunks);
      const ChunkGroup total{head, batch_heads, 0, 1, tokens, tokens, reverse};
      if (!in_.causal) use(tiles_of(total), {feature_groups_, total, value_states.data(), gradient_states.data()});
    }
  }

  QuadraticInputs<float, E> in_;
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
    if (params.map == RowMap::none) return run(q, k);
    run(MappedRows(params.map, q, first_queries.of()).view(), MappedRows(params.map, k, padding_mask).view());
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
    if (params.map == RowMap::none) return run(q, k);
    const MappedRows queries(params.map, q, first_queries.of()), keys(params.map, k, padding_mask);
    run(queries.view(), keys.view());
    queries.differentiate(dq);
    keys.differentiate(dk);
  });
}

}  // namespace linnet::cuda
