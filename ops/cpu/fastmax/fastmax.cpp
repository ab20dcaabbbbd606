#include <linnet/ops/cpu/fastmax/feature_chunks.h>
#include <linnet/ops/cpu/fastmax/linear_chunks.h>

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35) and its gradient, which the paper leaves as future
/// work (section 2.5). φ are the packed features of fastmax_features.h, w their weights, ṽ = [v, 1]:
///   S = Σ_n φ(k_n) ṽ_nᵀ,   [F_i, g_i] = (w∘S)ᵀ φ(q_i),   o_i = F_i / g_i
/// With G = ∂L/∂o and u_i = [G_i, −G_i·o_i] / g_i, backward is the same sum with the sides exchanged:
///   R = Σ_i φ(q_i) u_iᵀ,   ∂φ(q_i) = (w∘S) u_i,   ∂φ(k_n) = (w∘R) ṽ_n,   ∂v_n = (w∘R)ᵀ φ(k_n) without its last entry
/// When causal, S is a sum over n ≤ i and R one over i ≥ n: over the chunks before (behind) a token's own from their
/// sums, inside it by the quadratic form, or for first order as a recurrence. The last columns of S and R, the
/// denominators', are kept apart as z: BLAS is slow at D + 1 columns, and dropout need not reach them.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Bytes of states that are held at a time; and tasks, at the least, where there are tokens for them.
constexpr int64_t kStateBytes = int64_t{4} << 20, kTasks = 32, kMinChunk = 256;
/// Tokens that are added to a state one by one, at the most: each addition rounds, in the worst case the same way.
constexpr int64_t kMaxCausalChunk = 512;
/// Chunks that a causal sweep first sums up and then uses, at the most: their tokens stay in the caches in between.
constexpr int64_t kGroup = 2 * kTasks;

template <class T>
Plan make_plan(const Inputs& in, const Features& features, bool long_chunks) {
  const int64_t state_bytes = features.count() * (in.width() + 1) * static_cast<int64_t>(sizeof(T));
  const int64_t room = std::max(kStateBytes / state_bytes, kTasks / 2);
  const int64_t lanes = in.params.causal ? std::min(room, kGroup) : room;
  const int64_t positions = std::max(in.keys_end(), in.queries_end()) - in.first();
  int64_t chunk = in.block();
  if (!in.params.causal || long_chunks) {
    const int64_t parts = std::clamp(std::min(kTasks / in.heads(), positions / kMinChunk), int64_t{1}, lanes);
    chunk = round_up(ceil_div(positions, parts), chunk);
    if (in.params.causal) chunk = std::min(chunk, kMaxCausalChunk);
  }
  return {in.heads(), in.first(), in.keys_end(), in.queries_end(), chunk, lanes, in.params.causal};
}

/// One call of a kernel: what the parts of all heads share.
template <class T, template <class> class Chunks>
class Pass {
 public:
  explicit Pass(const Inputs& in)
      : in_(in),
        features_(in.width(), in.params.a2 != 0, in.columns()),
        sides_(in, features_),
        chunks_(in, sides_),
        plan_(make_plan<T>(in, features_, Chunks<T>::kLong)),
        sweep_(plan_, features_, chunks_.weights()) {}

  void forward(const View& o, const View& g) const {
    const Side queries = sides_.queries(nullptr), keys = sides_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    const auto use = [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
      chunks_.attend(chunk, s, queries, keys, o, g, sum_of_keys);
    };
    sweep_.for_heads([&](Heads heads) {
      if (in_.params.causal) return sweep_.scan(heads, plan_.keys_end, false, sum_keys, use);
      const States<T> s(heads.count, features_);
      sweep_.total(heads, plan_.keys_end, s, sum_keys);
      sweep_.for_each_chunk(heads, plan_.queries_end,
                            [&](const Chunk& chunk) { use(chunk, s[chunk.head - heads.first], nullptr); });
    });
  }

  /// Not causal, one pass over the queries both uses S and sums up R.
  void backward(const View& dq, const View& dk, const View& dv, const Cotangents& cotangents) const {
    const Side queries = sides_.queries(&cotangents), keys = sides_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    sweep_.for_heads([&](Heads heads) {
      if (in_.params.causal) return backward_causal(heads, dq, dk, dv, cotangents);
      const States<T> s(heads.count, features_), r(heads.count, features_);
      sweep_.total(heads, plan_.keys_end, s, sum_keys);
      sweep_.total(heads, plan_.queries_end, r, [&](const Chunk& chunk, State<T> own) {
        chunks_.differentiate(chunk, s[chunk.head - heads.first], queries, keys, dq, nullptr, {&own, nullptr});
      });
      sweep_.for_each_chunk(heads, plan_.keys_end, [&](const Chunk& chunk) {
        chunks_.differentiate(chunk, r[chunk.head - heads.first], keys, queries, dk, &dv, {});
      });
    });
  }

 private:
  void backward_causal(Heads heads, const View& dq, const View& dk, const View& dv,
                       const Cotangents& cotangents) const {
    const Side queries = sides_.queries(&cotangents), keys = sides_.keys();
    const auto sum_keys = [&](const Chunk& chunk, State<T> s) { chunks_.sum(chunk, s, keys); };
    const auto use_on_keys = [&](const Chunk& chunk, State<T> r, const State<T>* sum_of_queries) {
      chunks_.differentiate(chunk, r, keys, queries, dk, &dv, {nullptr, sum_of_queries});
    };
    const int64_t end = plan_.keys_end, chunks = plan_.chunks_until(end);
    if (sweep_.holds_all(heads, end)) {
      const States<T> r(heads.count * chunks, features_);
      sweep_.scan(heads, end, false, sum_keys, [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
        const State<T> own = r[(chunk.head - heads.first) * chunks + chunk.index];
        const bool wanted = chunk.index > 0;  // by the chunks before it
        if (!wanted) clear(features_, own);
        chunks_.differentiate(chunk, s, queries, keys, dq, nullptr, {wanted ? &own : nullptr, sum_of_keys});
      });
      return sweep_.scan_back(heads, end, r, [&](const Chunk& chunk, State<T> s) { use_on_keys(chunk, s, nullptr); });
    }
    sweep_.scan(heads, end, false, sum_keys, [&](const Chunk& chunk, State<T> s, const State<T>* sum_of_keys) {
      chunks_.differentiate(chunk, s, queries, keys, dq, nullptr, {nullptr, sum_of_keys});
    });
    sweep_.scan(
        heads, end, true, [&](const Chunk& chunk, State<T> r) { chunks_.sum(chunk, r, queries); }, use_on_keys);
  }

  const Inputs& in_;
  Features features_;
  Sides<T> sides_;
  Chunks<T> chunks_;
  Plan plan_;
  InterChunkScan<T> sweep_;
};

void fastmax(View o, View denominator, View q, View k, View v, const View* padding_mask,
             const FastmaxParams& params) {
  const Inputs in{q, k, v, padding_mask, params};
  dispatch_floating(q.dtype, [&]<class T>(T) {
    LinearChunks<T>::computes(in) ? Pass<T, LinearChunks>(in).forward(o, denominator)
                                  : Pass<T, FeatureChunks>(in).forward(o, denominator);
  });
}

void fastmax_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                      const View* padding_mask, const FastmaxParams& params) {
  const Inputs in{q, k, v, padding_mask, params};
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
