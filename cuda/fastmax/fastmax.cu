#include <algorithm>
#include <type_traits>

#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/fastmax/apply.cuh>
#include <linnet/cuda/fastmax/fastmax_mma.cuh>
#include <linnet/cuda/fastmax/gradients.cuh>
#include <linnet/cuda/fastmax/tokens.cuh>

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35) and its gradient, which the paper leaves as future
/// work (section 2.5). The sums are those of ops/cpu/fastmax/fastmax.cpp. Forward is a sweep over the keys, which
/// computes results of the queries. Backward also has a sweep over the queries, which computes gradients of the keys.
/// All chunks are in parallel:
///   1. a block for each chunk and tile of features sums the chunk's tokens (sum_features);
///   2. the sums are added up over the chunks, when causal up to each chunk (add_states);
///   3. a block for each tile of tokens applies the states (apply_states, differentiate), and when causal adds the
///      intra-chunk weights.
/// Features are computed in shared memory and never written to global memory. The states of one group of chunks are
/// in memory at a time, so that memory grows only with N·D. Calls for which fastmax_mma.cu has kernels are passed on
/// to it.

namespace linnet::cuda {
namespace {

int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

template <class T, class S, class E>
class Pass {
 public:
  Pass(const View& q, const View& k, const View& v, const View* padding_mask, const FastmaxParams& params,
       bool backward)
      : params_(params),
        q_(q),
        k_(k),
        all_heads_(q.shape[0] * q.shape[1]),
        in_(factorised_params()),
        query_memory_(side_size(backward)),
        key_memory_(side_size(true)),
        queries_(side(query_memory_, backward, params.q_rng, q.shape[2], causal_offset() - start())),
        keys_(side(key_memory_, true, params.k_rng, k.shape[2], -start())),
        first_queries_(q, k, padding_mask, params.causal),
        query_tokens_(tokens(queries_, nullptr, first_queries_.of())),
        key_tokens_(tokens(keys_, padding_mask, {})) {
    launch(load_vectors<T, E>, blocks(), kThreads, query_tokens_, in_, HeadsView<const E>(q), queries_, params.map,
           true);
    launch(load_vectors<T, E>, blocks(), kThreads, key_tokens_, in_, HeadsView<const E>(k), keys_, params.map, false);
    launch(load_values<T, E>, blocks(), kThreads, key_tokens_, in_, HeadsView<const E>(v), keys_);
  }

  void forward(const View& o, const View& denominator) const {
    sweep(keys_, false, [&](const ChunkGroup& chunk_group, const T* states) {
      apply(queries_, keys_, chunk_group, states, {HeadsView<E>(o), q_.shape[1], data<T>(denominator)});
    });
  }

  void backward(const View& dq, const View& dk, const View& dv, const View& d_o, const View& o,
                const View& denominator) const {
    launch(load_cotangents<T, E>, blocks(), kThreads, query_tokens_, in_, HeadsView<const E>(d_o),
           HeadsView<const E>(o), data<const T>(denominator), queries_);
    const Scratch<T> gradients(all_heads_ * in_.width * in_.positions);
    sweep(keys_, false, [&](const ChunkGroup& chunk_group, const T* states) {
      differentiate(queries_, keys_, chunk_group, states, gradients.data());
    });
    store(query_tokens_, queries_, gradients.data(), dq);
    sweep(queries_, true, [&](const ChunkGroup& chunk_group, const T* states) {
      differentiate(keys_, queries_, chunk_group, states, gradients.data());
      apply(keys_, queries_, chunk_group, states, {HeadsView<E>(dv), k_.shape[1], nullptr});
    });
    store(key_tokens_, keys_, gradients.data(), dk);
  }

 private:
  // ---- Sizes ----

  /// When causal, the last query is at the last key's position.
  int64_t causal_offset() const { return params_.causal ? k_.shape[2] - q_.shape[2] : 0; }
  int64_t start() const { return std::min(causal_offset(), int64_t{0}); }

  FactorisedParams<T> factorised_params() const {
    FactorisedParams<T> in{};
    in.width = q_.shape[3];
    in.positions = round_up(std::max(k_.shape[2], q_.shape[2] + causal_offset()) - start(), 64);
    in.a0 = static_cast<T>(params_.a0);
    in.a1 = static_cast<T>(params_.a1);
    in.a2 = static_cast<T>(params_.a2);
    in.causal = params_.causal;
    in.dropout = params_.dropout;
    in.keep_of_256 = params_.keep_of_256;
    in.shared_denominator = params_.shared_denominator;
    in.count_tiles();
    return in;
  }

  /// The number of positions of a chunk. There are enough that adding states costs little compared to using them.
  /// When causal, there are also few enough that the intra-chunk quadratic form costs little. With dropped features
  /// that form costs M for each pair of tokens.
  int64_t chunk_size() const {
    if (!in_.causal) return 1024;
    if (in_.drops_features()) return kTile<T>;
    return in_.a2 == 0 ? 64 : std::clamp(round_up(4 * in_.width, 64), int64_t{128}, int64_t{512});
  }

  // ---- The sides ----

  int64_t side_size(bool with_y) const { return all_heads_ * in_.positions * (in_.entries() * (with_y ? 2 : 1) + 2); }

  LoadedSide<T> side(const Scratch<T>& memory, bool with_y, RandomKey key, int64_t count, int64_t shift) const {
    const int64_t row = all_heads_ * in_.positions, size = row * in_.entries();
    T* const y = memory.data() + size;
    T* const inverse = with_y ? y + size : y;
    const bool drops_tokens = in_.drops() && !in_.drops_features();
    return {memory.data(), y, inverse, drops_tokens ? inverse + row : nullptr, key, count, shift};
  }

  Tokens tokens(const LoadedSide<T>& side, const View* padding_mask, FirstQuery first) const {
    return {q_.shape[1], all_heads_, in_.positions, first, side.count, side.shift, PaddingMask(padding_mask)};
  }

  int64_t blocks() const { return blocks_for(all_heads_ * in_.positions); }

  void store(const Tokens& tokens, const LoadedSide<T>& side, const T* gradients, const View& to) const {
    launch(store_gradients<T, E>, blocks(), kThreads, tokens, in_, side, gradients, HeadsView<E>(to), params_.map);
  }

  // ---- The sweep ----

  /// Calls `use(chunk_group, states)` with the sums over the tokens of `side`. When causal, it calls it for each
  /// group of chunks, with the state of all tokens before each chunk (in reverse: after it). Otherwise all tokens are
  /// one chunk with one state.
  template <class Use>
  void sweep(const LoadedSide<T>& side, bool reverse, const Use& use) const {
    const int64_t size = in_.state_size(), chunks = ceil_div(in_.positions, chunk_size());
    // The bytes of one state, and of the sums that a head needs besides its states.
    const int64_t state = size * int64_t{sizeof(T)};
    const int64_t fixed = size * int64_t{sizeof(double)} + (in_.causal ? 0 : state);
    const int64_t batch = std::clamp(kStateBytes / (state + fixed), int64_t{1}, all_heads_);
    const int64_t group = std::clamp((kStateBytes / batch - fixed) / state, int64_t{1}, chunks);
    const Scratch<T> states(batch * group * size), totals(in_.causal ? 0 : batch * size);
    const Scratch<double> carried(batch * size);
    for (int64_t head = 0; head < all_heads_; head += batch) {
      const int64_t heads = std::min(batch, all_heads_ - head);
      const int64_t shape[] = {heads * size}, strides[] = {1};
      cuda_backend().fill({carried.data(), dtype_of<double>, 1, shape, strides}, 0);
      for (int64_t first_chunk = 0; first_chunk < chunks; first_chunk += group) {
        const ChunkGroup chunk_group{head,         heads,         first_chunk, std::min(group, chunks - first_chunk),
                                     chunk_size(), in_.positions, reverse};
        sum(side, chunk_group, states.data());
        launch(add_states<T>, blocks_for(heads * size), kThreads, chunk_group, states.data(), carried.data(),
               totals.data(), size);
        if (in_.causal) use(chunk_group, states.data());
      }
      if (!in_.causal) use(ChunkGroup{head, heads, 0, 1, in_.positions, in_.positions, reverse}, totals.data());
    }
  }

  // ---- Kernels ----

  /// Calls `f(columns, drops)` with the number of a thread tile's columns, which is less for narrow heads, and with
  /// whether there is dropout.
  template <class F>
  void for_variant(const F& f) const {
    using std::bool_constant, std::integral_constant;
    const auto with_columns = [&](auto columns) {
      in_.drops() ? f(columns, bool_constant<true>()) : f(columns, bool_constant<false>());
    };
    if (in_.width > kSide * kThreadTile<T> / 2) return with_columns(integral_constant<int, kThreadTile<T>>());
    with_columns(integral_constant<int, kThreadTile<T> / 2>());
  }

  int64_t column_tiles(int columns) const { return ceil_div(in_.width, kSide * columns); }

  void sum(const LoadedSide<T>& side, const ChunkGroup& chunk_group, T* states) const {
    for_variant([&](auto columns, auto drops) {
      const int64_t count = column_tiles(columns);
      launch(sum_features<T, S, columns(), drops()>, chunk_group.count() * in_.tiles * count, kThreads, in_, side,
             chunk_group, states, in_.state_size(), count);
    });
  }

  void apply(const LoadedSide<T>& own, const LoadedSide<T>& other, const ChunkGroup& chunk_group, const T* states,
             const TokenOutput<T, E>& to) const {
    for_variant([&](auto columns, auto drops) {
      const int64_t count = column_tiles(columns);
      launch(apply_states<T, S, E, columns(), drops()>,
             chunk_group.count() * ceil_div(chunk_group.chunk_size, kTile<T>) * count, kThreads, in_, own, other,
             chunk_group, states, in_.state_size(), count, to);
    });
  }

  void differentiate(const LoadedSide<T>& own, const LoadedSide<T>& other, const ChunkGroup& chunk_group,
                     const T* states, T* gradients) const {
    const int64_t blocks = chunk_group.count() * ceil_div(chunk_group.chunk_size, kTile<T>);
    const auto kernel = in_.drops() ? cuda::differentiate<T, S, true> : cuda::differentiate<T, S, false>;
    launch(kernel, blocks, kThreads, in_, own, other, chunk_group, states, in_.state_size(), gradients);
  }

  const FastmaxParams& params_;
  const View &q_, &k_;
  int64_t all_heads_;
  FactorisedParams<T> in_;
  Scratch<T> query_memory_, key_memory_;
  LoadedSide<T> queries_, keys_;
  FirstQueries first_queries_;
  Tokens query_tokens_, key_tokens_;
};

void fastmax(View o, View denominator, View q, View k, View v, const View* padding_mask,
             const FastmaxParams& params) {
  if (fastmax_mma(o, denominator, q, k, v, padding_mask, params)) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    Pass<decltype(computed), decltype(shared), decltype(element)>(q, k, v, padding_mask, params, false)
        .forward(o, denominator);
  });
}

void fastmax_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                      const View* padding_mask, const FastmaxParams& params) {
  if (fastmax_mma_backward(dq, dk, dv, d_o, o, denominator, q, k, v, padding_mask, params)) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    Pass<decltype(computed), decltype(shared), decltype(element)>(q, k, v, padding_mask, params, true)
        .backward(dq, dk, dv, d_o, o, denominator);
  });
}

}  // namespace

void fill_fastmax(Backend& table) {
  table.fastmax = fastmax;
  table.fastmax_backward = fastmax_backward;
}

}  // namespace linnet::cuda
