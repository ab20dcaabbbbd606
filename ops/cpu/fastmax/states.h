#pragma once

#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/fastmax/features.h>

/// The sums over tokens S = Σ_n φ(x_n) ỹ_nᵀ, chunk by chunk. The tokens of each head are split into chunks, by sizes
/// alone. Chunks are summed in parallel, their sums are added in order, and the results are used in parallel. When
/// causal, a chunk gets the sum of the chunks before it (in reverse: after it). Only a group of chunks is in memory
/// at a time, so memory does not grow with the tokens, and a scan sums each chunk once. If whole heads divide evenly
/// among the threads, each thread goes through its heads chunk by chunk, with the same sums.

namespace linnet::cpu::LINNET_ISA {

/// A state of one head: S [F, D] of the numerators, and z [F] of the denominators after it, for F features.
template <class T>
struct State {
  T* s;
  T* z;
};

template <class T>
void clear(const Features& features, State<T> state) {
  std::fill_n(state.s, features.count() * features.width(), T{0});
  std::fill_n(state.z, features.count(), T{0});
}

/// Destinations for the sums over a chunk's own tokens: of the side that is differentiated, and of the other side.
/// Null if not wanted.
template <class T>
struct ChunkStates {
  const State<T>* own = nullptr;
  const State<T>* other = nullptr;
};

/// Chunk `index` of a head: `size` positions from `first`.
struct Chunk {
  int64_t head, index, first, size;
};

struct ChunkPlan {
  int64_t heads;
  int64_t first;        ///< the lowest position
  int64_t keys_end;     ///< one after the last position of a key
  int64_t queries_end;  ///< one after the last position of a query
  int64_t chunk;        ///< positions per chunk, a multiple of kTile
  int64_t max_states;   ///< states in memory at a time, in addition to the carried ones
  bool causal;

  int64_t chunks_until(int64_t end) const { return ceil_div(end - first, chunk); }
};

/// Memory for `count` states.
template <class T>
class States {
 public:
  States(int64_t count, const Features& features)
      : count_(count),
        s_size_(features.count() * features.width()),
        size_(s_size_ + features.count()),
        memory_(count * size_) {}

  State<T> operator[](int64_t i) const { return {memory_.data() + i * size_, memory_.data() + i * size_ + s_size_}; }
  void clear() const { std::fill_n(memory_.data(), count_ * size_, T{0}); }

 private:
  int64_t count_, s_size_, size_;
  Scratch<T> memory_;
};

/// Heads whose states are in memory together.
struct HeadRange {
  int64_t first, count;
};

/// Sums of chunks, and the states that chunks get from other chunks.
template <class T>
class InterChunkScan {
 public:
  /// `weights` [M]: the weight w of each feature.
  InterChunkScan(const ChunkPlan& plan, const Features& features, const T* weights)
      : plan_(plan), features_(features), width_(features.width()), weights_(weights) {}

  /// Calls `f(heads)` for ranges that cover all heads, in order.
  template <class F>
  void for_heads(F f) const {
    const int64_t batch = std::min(plan_.heads, plan_.max_states);
    for (int64_t head = 0; head < plan_.heads; head += batch) f(HeadRange{head, std::min(batch, plan_.heads - head)});
  }

  /// Calls `add(chunk, state)`, which writes the chunk's own sum, for the chunks of some heads up to `end`.
  /// totals[h] becomes the sum over all chunks of head h, each row times its weight.
  template <class Add>
  void total(HeadRange heads, int64_t end, const States<T>& totals, const Add& add) const {
    const int64_t chunks = plan_.chunks_until(end);
    const States<T> states(heads.count * chunks, features_);
    totals.clear();
    for_each_head_chunk(heads, chunks, [&](int64_t head, int64_t index) {
      add(chunk(heads.first + head, index), states[head * chunks + index]);
    });
    add_all(heads, chunks, states, totals);
  }

  /// Calls `use(chunk)` for the chunks of some heads up to `end`.
  template <class Use>
  void for_each_chunk(HeadRange heads, int64_t end, const Use& use) const {
    for_each_head_chunk(heads, plan_.chunks_until(end),
                        [&](int64_t head, int64_t index) { use(chunk(heads.first + head, index)); });
  }

  /// Causal: calls `use(chunk, state, own)` for the chunks up to `end`. `state` is the sum over the chunks before it
  /// (in reverse: after it), each row times its weight. `use` must write the chunk's own sum to `own`, unless that is
  /// null: then the sum is not needed, or `add(chunk, own)` has made it before.      [FAST eq.34] [FAST eq.35]
  template <class Add, class Use>
  void scan(HeadRange heads, int64_t end, bool reverse, const Add& add, const Use& use) const {
    if (shares_evenly(heads.count)) return scan_in_order(heads, end, reverse, use);
    const int64_t all = plan_.chunks_until(end), group = std::clamp(plan_.max_states / heads.count, int64_t{1}, all);
    const States<T> states(heads.count * group, features_), carried(heads.count, features_);
    carried.clear();
    for (int64_t done = 0; done < all; done += group) {
      const int64_t chunks = std::min(group, all - done);
      const auto for_group = [&](const auto& f) {
        for_each_head_chunk(heads, chunks, [&](int64_t head, int64_t i) {
          const int64_t index = reverse ? all - 1 - done - i : done + i;
          f(chunk(heads.first + head, index), states[head * group + i]);
        });
      };
      const int64_t last = reverse ? 0 : all - 1;  // no chunk needs its sum
      for_group(
          [&](const Chunk& chunk, State<T> own) { chunk.index == last ? clear(features_, own) : add(chunk, own); });
      exclusive_scan(heads, chunks, group, false, states, carried);
      for_group([&](const Chunk& chunk, State<T> state) { use(chunk, state, nullptr); });
    }
  }

  /// Whether the states of all chunks of some heads up to `end` fit in memory together.
  bool fits_in_memory(HeadRange heads, int64_t end) const {
    return heads.count * plan_.chunks_until(end) <= plan_.max_states;
  }

  /// The second half of a `scan` in reverse, from the sums of all chunks, head by head and chunk by chunk.
  template <class Use>
  void scan_sums_in_reverse(HeadRange heads, int64_t end, const States<T>& sums, const Use& use) const {
    const int64_t chunks = plan_.chunks_until(end);
    const States<T> carried(heads.count, features_);
    carried.clear();
    exclusive_scan(heads, chunks, chunks, true, sums, carried);
    parallel_tasks(heads.count * chunks,
                   [&](int64_t task) { use(chunk(heads.first + task / chunks, task % chunks), sums[task]); });
  }

 private:
  /// Whether whole heads divide among the threads so that each has about the same work. This choice may depend on the
  /// number of threads, because both ways give bit-identical results: each number of a state is the sum of the
  /// chunks' sums, added in order, times its weight, rounded after each step. `advance` and `exclusive_step` must
  /// stay that way.
  static bool shares_evenly(int64_t heads) {
    const int64_t threads = num_threads(), most = ceil_div(heads, threads);
    return most * threads * 7 <= heads * 8;
  }

  /// `scan` with one task for each head: a chunk's tokens are read from memory once, to be summed and used.
  template <class Use>
  void scan_in_order(HeadRange heads, int64_t end, bool reverse, const Use& use) const {
    const int64_t all = plan_.chunks_until(end);
    parallel_tasks(heads.count, [&](int64_t head) {
      const States<T> states(3, features_);
      const State<T> carried = states[0], own = states[1], state = states[2];
      states.clear();
      for (int64_t done = 0; done < all; ++done) {
        for (int64_t row = 0; row < features_.count(); ++row) {
          advance(carried.s + row * width_, own.s + row * width_, state.s + row * width_, weights_[row], width_);
          advance(carried.z + row, own.z + row, state.z + row, weights_[row], 1);
        }
        const int64_t index = reverse ? all - 1 - done : done;
        use(chunk(heads.first + head, index), state, done + 1 < all ? &own : nullptr);
      }
    });
  }

  /// Calls `f(head, i)` in parallel for `chunks` chunks of each head. Heads vary fastest: those of one token often
  /// lie next to each other in memory.
  template <class F>
  static void for_each_head_chunk(HeadRange heads, int64_t chunks, const F& f) {
    parallel_tasks(heads.count * chunks, [&](int64_t task) { f(task % heads.count, task / heads.count); });
  }

  Chunk chunk(int64_t head, int64_t index) const {
    return {head, index, plan_.first + index * plan_.chunk, plan_.chunk};
  }

  /// totals[h] = the sum over the chunks of head h, each row times its weight.
  void add_all(HeadRange heads, int64_t chunks, const States<T>& states, const States<T>& totals) const {
    for_rows(heads, chunks, [&](int64_t head, int64_t begin, int64_t end) {
      const State<T> total = totals[head];
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const State<T> own = states[head * chunks + chunk];
        add(total.s + begin * width_, own.s + begin * width_, (end - begin) * width_);
        add(total.z + begin, own.z + begin, end - begin);
      }
      for (int64_t row = begin; row < end; ++row) {
        scale(total.s + row * width_, weights_[row], width_);
        total.z[row] *= weights_[row];
      }
    });
  }

  /// Replaces each chunk's sum by the carried sum of the chunks before it, each row times its weight, and adds the
  /// chunk's sum to the carried one.
  void exclusive_scan(HeadRange heads, int64_t chunks, int64_t group, bool reverse, const States<T>& states,
                      const States<T>& carried) const {
    for_rows(heads, chunks, [&](int64_t head, int64_t begin, int64_t end) {
      const State<T> sum = carried[head];
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const State<T> own = states[head * group + (reverse ? chunks - 1 - chunk : chunk)];
        for (int64_t row = begin; row < end; ++row) {
          exclusive_step(sum.s + row * width_, own.s + row * width_, weights_[row], width_);
          exclusive_step(sum.z + row, own.z + row, weights_[row], 1);
        }
      }
    });
  }

  /// Calls `f(head, begin, end)` in parallel for ranges of the states' rows, in each of some heads. `chunks`: the
  /// states that a call works on.
  template <class F>
  void for_rows(HeadRange heads, int64_t chunks, const F& f) const {
    const int64_t all = features_.count();
    const int64_t rows = std::max(kGrain / 4 / (chunks * (width_ + 1)), int64_t{1}), splits = ceil_div(all, rows);
    parallel_tasks(heads.count * splits, [&](int64_t task) {
      const int64_t begin = task % splits * rows;
      f(task / splits, begin, std::min(begin + rows, all));
    });
  }

  static void add(T* sum, const T* x, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
  }
  static void scale(T* x, T factor, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  }
  static void advance(T* sum, const T* own, T* state, T weight, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      sum[i] += own[i];
      state[i] = sum[i] * weight;
    }
  }
  static void exclusive_step(T* sum, T* own, T weight, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const T x = own[i];
      own[i] = sum[i] * weight;
      sum[i] += x;
    }
  }

  const ChunkPlan& plan_;
  const Features& features_;
  int64_t width_;
  const T* weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
