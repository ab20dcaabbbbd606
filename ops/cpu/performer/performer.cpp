#include <linnet/ops/cpu/fastmax/states.h>
#include <linnet/ops/cpu/performer/chunks.h>

/// FAVOR+ (Choromanski et al. 2021), forward and backward. With features φ of features.h and ṽ = [v, 1]:
///   S = Σ_n φ(k_n) ṽ_nᵀ,   [F_i, g_i] = Sᵀ φ(q_i),   o_i = F_i / g_i
/// With G = ∂L/∂o and u_i = [G_i, −G_i·o_i] / g_i, backward is the same sum with queries and keys exchanged:
///   R = Σ_i φ(q_i) u_iᵀ,   ∂φ(q_i) = S u_i,   ∂φ(k_n) = R ṽ_n,   ∂v_n = Rᵀ φ(k_n) without its last entry
/// When causal, S sums over n ≤ i and R over i ≥ n.
///
/// These are the sums of first-order Fastmax, and its loader and causal products compute them. Its chunks and scans
/// do not fit: each feature is relative to an exponent that grows from chunk to chunk, so states are rescaled when
/// they are added, and D numbers have m features.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Bytes of the states in memory at a time. Does not affect results.
constexpr int64_t kStateBytes = int64_t{4} << 20;
/// The least number of tasks, if there are enough tokens, and the least tokens of a chunk that is cut to get them.
constexpr int64_t kTasks = 32, kMinChunk = 256;
/// The tokens of a causal chunk. They are added to a state one by one, and each addition rounds.
constexpr int64_t kCausalChunk = 256;
/// From this number of heads on, a task goes through all causal chunks of a head, and computes each key's features
/// once. With fewer, chunks are summed in parallel before others use their sums.
constexpr int64_t kManyHeads = 16;

/// One call of the kernel, forward or backward.
template <class T>
class Pass {
 public:
  Pass(const FastmaxInputs& in, const View& omega)
      : in_(in),
        omega_(omega),
        features_(in.width(), false, in.columns()),
        loader_(in, features_),
        chunks_(in, loader_, omega_),
        heads_(in.heads()),
        first_(in.first()),
        end_(std::max(in.keys_end(), in.queries_end())) {
    if (in.params.causal) {
      chunk_ = kCausalChunk;
    } else {
      const int64_t chunks =
          std::clamp(std::min(ceil_div(kTasks, heads_), (end_ - first_) / kMinChunk), int64_t{1}, kTasks);
      chunk_ = round_up(ceil_div(end_ - first_, chunks), kTile);
    }
  }

  void forward(const View& o, const View& denominators) const {
    if (!in_.params.causal) return for_head_ranges([&](HeadRange heads) { forward_all(heads, o, denominators); });
    const auto use = [&](Range range, int64_t, State before, const State* own) {
      chunks_.attend_causally(range, before, o, denominators, own);
    };
    if (heads_ >= kManyHeads) {
      parallel_tasks(heads_, [&](int64_t head) {
        const PerformerStates<T> states(2, omega_);
        scan_in_order(head, states, use);
      });
    } else {
      const PerformerStates<T> carried(heads_, omega_);
      scan(carried, use);
    }
  }

  void backward(const View& dq, const View& dk, const View& dv, const Cotangents& cotangents) const {
    if (!in_.params.causal) {
      return for_head_ranges([&](HeadRange heads) { backward_all(heads, dq, dk, dv, cotangents); });
    }
    const int64_t count = omega_.count(), chunks = chunks_until(end_);
    // `before`: the largest exponents of the keys before each chunk.
    const auto use_keys = [&](T* before) {
      return [&, before](Range range, int64_t at, State state, const State* own) {
        std::copy_n(state.most, count, before + at * count);
        chunks_.differentiate_queries_causally(range, state, cotangents, dq, own);
      };
    };
    const auto use_queries = [&](Range range, const T* before, State after, const State* own) {
      chunks_.differentiate_keys_causally(range, before, after, cotangents, dk, dv, own);
    };
    if (heads_ >= kManyHeads) {
      parallel_tasks(heads_, [&](int64_t head) {
        const Scratch<T> before(chunks * count);
        const PerformerStates<T> states(2, omega_);
        const State carried = states[0], own = states[1];
        const auto use = use_keys(before.data());
        scan_in_order(head, states, [&](Range range, int64_t index, State state, const State* sums) {
          use(range, index, state, sums);
        });
        clear_sums(carried);
        for (int64_t index = chunks - 1; index >= 0; --index) {
          use_queries(range_of(head, index), before.data() + index * count, carried, index > 0 ? &own : nullptr);
          if (index > 0) states.carry_back(carried, own);
        }
      });
    } else {
      const Scratch<T> before(heads_ * chunks * count);
      const PerformerStates<T> carried(heads_, omega_);
      const auto use = use_keys(before.data());
      scan(carried, [&](Range range, int64_t index, State state, const State* sums) {
        use(range, range.head * chunks + index, state, sums);
      });
      for (int64_t head = 0; head < heads_; ++head) clear_sums(carried[head]);
      scan_back(carried, before.data(), cotangents, use_queries);
    }
  }

 private:
  using Range = typename PerformerChunks<T>::Range;
  using State = PerformerState<T>;

  int64_t chunks_until(int64_t end) const { return ceil_div(end - first_, chunk_); }

  Range range_of(int64_t head, int64_t index, int64_t end) const {
    const int64_t first = first_ + index * chunk_;
    return {head, first, std::min(first + chunk_, end)};
  }
  Range range_of(int64_t head, int64_t index) const { return range_of(head, index, end_); }

  void clear_sums(State state) const { std::fill_n(state.sums.data, omega_.count() * (omega_.width() + 1), T{0}); }

  // ---- All queries see all keys ----

  /// Calls `f(heads)` for ranges of heads whose states fit in memory together.
  template <class F>
  void for_head_ranges(F f) const {
    const int64_t bytes = PerformerStates<T>::size(omega_) * static_cast<int64_t>(sizeof(T));
    const int64_t batch = std::clamp(kStateBytes / (bytes * (chunks_until(end_) + 2)), int64_t{1}, heads_);
    for (int64_t head = 0; head < heads_; head += batch) f(HeadRange{head, std::min(batch, heads_ - head)});
  }

  /// Calls `f(range, index of the head, index of the state)` in parallel for the chunks of some heads up to `end`.
  /// Heads vary fastest: those of one token often lie next to each other in memory.
  template <class F>
  void for_each_chunk(HeadRange heads, int64_t end, const F& f) const {
    const int64_t chunks = chunks_until(end);
    parallel_tasks(heads.count * chunks, [&](int64_t task) {
      const int64_t head = task % heads.count, index = task / heads.count;
      f(range_of(heads.first + head, index, end), head, head * chunks + index);
    });
  }

  /// totals[h] = the sums of all chunks up to `end` of head h, in order. `sum(range, h, state)` makes a chunk's.
  template <class F>
  void total(HeadRange heads, int64_t end, const PerformerStates<T>& totals, const F& sum) const {
    const int64_t chunks = chunks_until(end);
    const PerformerStates<T> states(heads.count * chunks, omega_);
    for_each_chunk(heads, end, [&](Range range, int64_t head, int64_t i) { sum(range, head, states[i]); });
    parallel_tasks(heads.count, [&](int64_t head) {
      states.copy(states[head * chunks], totals[head]);
      for (int64_t i = 1; i < chunks; ++i) states.merge(totals[head], states[head * chunks + i]);
    });
  }

  void forward_all(HeadRange heads, const View& o, const View& denominators) const {
    const PerformerStates<T> keys(heads.count, omega_);
    total(heads, in_.keys_end(), keys, [&](Range range, int64_t, State s) { chunks_.sum_keys(range, s); });
    for_each_chunk(heads, in_.queries_end(),
                   [&](Range range, int64_t head, int64_t) { chunks_.attend(range, keys[head], o, denominators); });
  }

  /// One pass over the queries both uses S and sums R.
  void backward_all(HeadRange heads, const View& dq, const View& dk, const View& dv,
                    const Cotangents& cotangents) const {
    const PerformerStates<T> keys(heads.count, omega_), queries(heads.count, omega_);
    total(heads, in_.keys_end(), keys, [&](Range range, int64_t, State s) { chunks_.sum_keys(range, s); });
    total(heads, in_.queries_end(), queries, [&](Range range, int64_t head, State own) {
      chunks_.differentiate_queries(range, keys[head], cotangents, dq, own);
    });
    for_each_chunk(heads, in_.keys_end(), [&](Range range, int64_t head, int64_t) {
      chunks_.differentiate_keys(range, keys[head].most, queries[head], dk, dv);
    });
  }

  // ---- Causal ----

  /// Calls `use(range, index, before, own)` for the chunks of a head in order. `before` holds the sums of the keys
  /// before the chunk; `use` must write those of its own keys to `own`, unless it is null. `states[0]` ends with the
  /// largest exponents of all keys.
  template <class Use>
  void scan_in_order(int64_t head, const PerformerStates<T>& states, const Use& use) const {
    const State carried = states[0], own = states[1];
    states.clear(carried);
    const int64_t chunks = chunks_until(end_);
    for (int64_t index = 0; index < chunks; ++index) {
      use(range_of(head, index), index, carried, &own);
      states.merge(carried, own);
    }
  }

  /// How many chunks of each head are in a group.
  int64_t group() const { return std::clamp(2 * kTasks / heads_, int64_t{1}, chunks_until(end_)); }

  template <class F>
  void for_group(int64_t done, const F& f) const {
    const int64_t size = std::min(group(), chunks_until(end_) - done);
    parallel_tasks(heads_ * size, [&](int64_t task) {
      const int64_t head = task % heads_, i = task / heads_;
      f(head, done + i, head * group() + i);
    });
  }

  /// The same as scan_in_order for all heads, with chunks in parallel; `own` is null.
  template <class Use>
  void scan(const PerformerStates<T>& carried, const Use& use) const {
    const int64_t chunks = chunks_until(end_);
    const PerformerStates<T> states(heads_ * group(), omega_);
    for (int64_t head = 0; head < heads_; ++head) carried.clear(carried[head]);
    for (int64_t done = 0; done < chunks; done += group()) {
      for_group(done, [&](int64_t head, int64_t index, int64_t at) {
        chunks_.sum_keys(range_of(head, index), states[at]);
      });
      parallel_tasks(heads_, [&](int64_t head) {
        const PerformerStates<T> own(1, omega_);
        for (int64_t i = 0; i < std::min(group(), chunks - done); ++i) {
          const State state = states[head * group() + i];
          own.copy(state, own[0]);
          own.copy(carried[head], state);
          own.merge(carried[head], own[0]);
        }
      });
      for_group(done, [&](int64_t head, int64_t index, int64_t at) {
        use(range_of(head, index), index, states[at], nullptr);
      });
    }
  }

  /// Calls `use(range, before, after, null)` for all chunks, with the sums of the queries after each. `before`
  /// [heads, chunks, features] as in `backward`; `carried` begins with the largest exponents of all keys.
  template <class Use>
  void scan_back(const PerformerStates<T>& carried, const T* before, const Cotangents& cotangents,
                 const Use& use) const {
    const int64_t chunks = chunks_until(end_), count = omega_.count();
    const auto before_chunk = [&](int64_t head, int64_t index) { return before + (head * chunks + index) * count; };
    const PerformerStates<T> states(heads_ * group(), omega_);
    for (int64_t done = 0; done < chunks; done += group()) {
      const auto index_of = [&](int64_t i) { return chunks - 1 - i; };  // of the chunk that is i-th from the end
      for_group(done, [&](int64_t head, int64_t i, int64_t at) {
        std::copy_n(before_chunk(head, index_of(i)), count, states[at].most);
        chunks_.sum_queries(range_of(head, index_of(i)), cotangents, states[at]);
      });
      parallel_tasks(heads_, [&](int64_t head) {
        const PerformerStates<T> own(1, omega_);
        for (int64_t i = 0; i < std::min(group(), chunks - done); ++i) {
          const State state = states[head * group() + i];
          own.copy(state, own[0]);
          own.copy(carried[head], state);
          own.carry_back(carried[head], own[0]);
        }
      });
      for_group(done, [&](int64_t head, int64_t i, int64_t at) {
        use(range_of(head, index_of(i)), before_chunk(head, index_of(i)), states[at], nullptr);
      });
    }
  }

  const FastmaxInputs& in_;
  PerformerFeatures<T> omega_;
  Features features_;
  TokenLoader<T> loader_;
  PerformerChunks<T> chunks_;
  int64_t heads_, first_, end_, chunk_ = 0;
};

/// The parameters by which FastmaxInputs counts positions.
FastmaxParams position_params(bool causal) {
  return {.a0 = 0,
          .a1 = 1,
          .a2 = 0,
          .map = RowMap::none,
          .causal = causal,
          .keep_of_256 = 256,
          .dropout = FastmaxDropout::token,
          .shared_denominator = false,
          .q_rng = {},
          .k_rng = {}};
}

void performer_attention(View o, View denominators, View q, View k, View v, View omega, const View* padding_mask,
                         bool causal) {
  const FastmaxParams params = position_params(causal);
  const FastmaxInputs in{q, k, v, padding_mask, params};
  dispatch_floating(q.dtype, [&]<class T>(T) { Pass<T>(in, omega).forward(o, denominators); });
}

void performer_attention_backward(View dq, View dk, View dv, View d_o, View o, View denominators, View q, View k,
                                  View v, View omega, const View* padding_mask, bool causal) {
  const FastmaxParams params = position_params(causal);
  const FastmaxInputs in{q, k, v, padding_mask, params};
  dispatch_floating(q.dtype,
                    [&]<class T>(T) { Pass<T>(in, omega).backward(dq, dk, dv, Cotangents{d_o, o, denominators}); });
}

}  // namespace

void fill_performer(Backend& table) {
  table.performer_attention = performer_attention;
  table.performer_attention_backward = performer_attention_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
