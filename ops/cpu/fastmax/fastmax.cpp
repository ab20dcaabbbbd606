#include <linnet/ops/cpu/fastmax/feature_chunks.h>
#include <linnet/ops/cpu/fastmax/linear_chunks.h>

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35) and its gradient, which the paper leaves as future
/// work (section 2.5). With the packed features φ and their weights w of features.h, and ṽ = [v, 1]:
///   S = Σ_n φ(k_n) ṽ_nᵀ,   [F_i, g_i] = (w∘S)ᵀ φ(q_i),   o_i = F_i / g_i
/// The paper's x⁽¹⁾, x⁽²⁾, x⁽³⁾ are the rows of S without its last column, and y⁽¹⁾, y⁽²⁾, y⁽³⁾ are that column.
/// With G = ∂L/∂o and u_i = [G_i, −G_i·o_i] / g_i, backward is the same sum with queries and keys exchanged:
///   R = Σ_i φ(q_i) u_iᵀ,   ∂φ(q_i) = (w∘S) u_i,   ∂φ(k_n) = (w∘R) ṽ_n,   ∂v_n = (w∘R)ᵀ φ(k_n) without its last entry
/// When causal, S sums over n ≤ i and R over i ≥ n. A token gets the chunks before its own (for R, after it) through
/// their states, and its own chunk through the quadratic form, or a recurrence for first order. The last columns of S
/// and R belong to the denominators and are kept apart as z: BLAS is slow at D + 1 columns, and dropout may not apply
/// to them.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Bytes of the states in memory at a time. Does not affect results.
constexpr int64_t kStateBytes = int64_t{4} << 20;
/// The least number of tasks, if there are enough tokens, and the least tokens of a chunk that is cut to get them.
constexpr int64_t kTasks = 32, kMinChunk = 256;
/// The most tokens that are added to a state one by one: each addition rounds, in the worst case in one direction.
constexpr int64_t kMaxCausalChunk = 512;
/// The most chunks that a causal scan sums before it uses their states: their tokens stay in the caches in between.
constexpr int64_t kGroup = 2 * kTasks;

template <class T>
ChunkPlan make_plan(const FastmaxInputs& in, const Features& features, bool long_chunks) {
  const int64_t state_bytes = features.count() * (in.width() + 1) * static_cast<int64_t>(sizeof(T));
  const int64_t fitting = std::max(kStateBytes / state_bytes, kTasks / 2);
  const int64_t max_states = in.params.causal ? std::min(fitting, kGroup) : fitting;
  const int64_t positions = std::max(in.keys_end(), in.queries_end()) - in.first();
  int64_t chunk = in.subchunk();
  if (!in.params.causal || long_chunks) {
    const int64_t chunks = std::clamp(std::min(kTasks / in.heads(), positions / kMinChunk), int64_t{1}, max_states);
    chunk = round_up(ceil_div(positions, chunks), chunk);
    if (in.params.causal) chunk = std::min(chunk, kMaxCausalChunk);
  }
  return {in.heads(), in.first(), in.keys_end(), in.queries_end(), chunk, max_states, in.params.causal};
}

/// One call of the kernel, forward or backward. `Chunks` does the arithmetic of one chunk.
template <class T, template <class> class Chunks>
class Pass {
 public:
  explicit Pass(const FastmaxInputs& in)
      : in_(in),
        features_(in.width(), in.params.a2 != 0, in.columns()),
        loader_(in, features_),
        chunks_(in, loader_),
        plan_(make_plan<T>(in, features_, Chunks<T>::kLong)),
        scan_(plan_, features_, chunks_.weights()) {}

  void forward(const View& o, const View& g) const {
    const Side queries = loader_.queries(nullptr), keys = loader_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    const auto use = [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
      chunks_.attend(chunk, s, queries, keys, o, g, sum_of_keys);
    };
    scan_.for_heads([&](HeadRange heads) {
      if (in_.params.causal) return scan_.scan(heads, plan_.keys_end, false, sum_keys, use);
      const States<T> s(heads.count, features_);  // [FAST eq.28] [FAST eq.29], summed by chunks
      scan_.total(heads, plan_.keys_end, s, sum_keys);
      scan_.for_each_chunk(heads, plan_.queries_end,
                           [&](const Chunk& chunk) { use(chunk, s[chunk.head - heads.first], nullptr); });
    });
  }

  /// When not causal, one pass over the queries both uses S and sums R.
  void backward(const View& dq, const View& dk, const View& dv, const Cotangents& cotangents) const {
    const Side queries = loader_.queries(&cotangents), keys = loader_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    scan_.for_heads([&](HeadRange heads) {
      if (in_.params.causal) return backward_causal(heads, dq, dk, dv, cotangents);
      const States<T> s(heads.count, features_), r(heads.count, features_);
      scan_.total(heads, plan_.keys_end, s, sum_keys);
      scan_.total(heads, plan_.queries_end, r, [&](const Chunk& chunk, State<T> own) {
        chunks_.differentiate(chunk, s[chunk.head - heads.first], queries, keys, dq, nullptr, {&own, nullptr});
      });
      scan_.for_each_chunk(heads, plan_.keys_end, [&](const Chunk& chunk) {
        chunks_.differentiate(chunk, r[chunk.head - heads.first], keys, queries, dk, &dv, {});
      });
    });
  }

 private:
  void backward_causal(HeadRange heads, const View& dq, const View& dk, const View& dv,
                       const Cotangents& cotangents) const {
    const Side queries = loader_.queries(&cotangents), keys = loader_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    const auto use_on_keys = [&](const Chunk& chunk, State<T> r, const State<T>* sum_of_queries) {
      chunks_.differentiate(chunk, r, keys, queries, dk, &dv, {nullptr, sum_of_queries});
    };
    const int64_t end = plan_.keys_end, chunks = plan_.chunks_until(end);
    if (scan_.fits_in_memory(heads, end)) {
      const States<T> r(heads.count * chunks, features_);
      scan_.scan(heads, end, false, sum_keys, [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
        const State<T> own = r[(chunk.head - heads.first) * chunks + chunk.index];
        const bool wanted = chunk.index > 0;  // no chunk before the first one needs its sum
        if (!wanted) clear(features_, own);
        chunks_.differentiate(chunk, s, queries, keys, dq, nullptr, {wanted ? &own : nullptr, sum_of_keys});
      });
      return scan_.scan_sums_in_reverse(heads, end, r,
                                        [&](const Chunk& chunk, State<T> s) { use_on_keys(chunk, s, nullptr); });
    }
    scan_.scan(heads, end, false, sum_keys, [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
      chunks_.differentiate(chunk, s, queries, keys, dq, nullptr, {nullptr, sum_of_keys});
    });
    scan_.scan(
        heads, end, true, [&](const Chunk& chunk, State<T> r) { chunks_.sum(chunk, r, queries); }, use_on_keys);
  }

  const FastmaxInputs& in_;
  Features features_;
  TokenLoader<T> loader_;
  Chunks<T> chunks_;
  ChunkPlan plan_;
  InterChunkScan<T> scan_;
};

void fastmax(View o, View denominator, View q, View k, View v, const View* padding_mask,
             const FastmaxParams& params) {
  const FastmaxInputs in{q, k, v, padding_mask, params};
  dispatch_floating(q.dtype, [&]<class T>(T) {
    LinearChunks<T>::computes(in) ? Pass<T, LinearChunks>(in).forward(o, denominator)
                                  : Pass<T, FeatureChunks>(in).forward(o, denominator);
  });
}

void fastmax_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                      const View* padding_mask, const FastmaxParams& params) {
  const FastmaxInputs in{q, k, v, padding_mask, params};
  dispatch_floating(q.dtype, [&]<class T>(T) {
    const Cotangents cotangents{d_o, o, denominator};
    LinearChunks<T>::computes(in) ? Pass<T, LinearChunks>(in).backward(dq, dk, dv, cotangents)
                                  : Pass<T, FeatureChunks>(in).backward(dq, dk, dv, cotangents);
  });
}

}  // namespace

void fill_fastmax(Backend& table) {
  table.fastmax = fastmax;
  table.fastmax_backward = fastmax_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
