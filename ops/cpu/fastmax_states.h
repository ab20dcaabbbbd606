#pragma once

#include <linnet/core/parallel.h>
#include <linnet/ops/cpu/fastmax_features.h>
#include <linnet/ops/cpu/kernel.h>

/// How the sums over tokens, S = Σ_n φ(x_n) ỹ_nᵀ, are divided. The tokens of each head are cut into chunks by their
/// number alone; chunks are summed in parallel, added up in order, and then used in parallel. When causal, a chunk is
/// given what lies before it (or behind it, in reverse), so only a group of chunks is held at a time: memory does not
/// grow with the tokens, and each state is made once a sweep.

namespace linnet::cpu::LINNET_ISA {

/// A state of one head: S [M, D] for the values, and behind it the denominators' z [M].
template <class T>
struct State {
  T* s;
  T* z;
};

/// Chunk `index` of a head: `size` positions from `first`.
struct Chunk {
  int64_t head, index, first, size;
};

struct Plan {
  int64_t heads;
  int64_t first;        ///< the lowest position
  int64_t keys_end;     ///< behind the last position of a key
  int64_t queries_end;  ///< behind that of a query
  int64_t chunk;        ///< positions per chunk, a multiple of kTile
  int64_t lanes;        ///< states that are held at a time, and carried ones
  bool causal;

  int64_t chunks_until(int64_t end) const { return (end - first + chunk - 1) / chunk; }
};

template <class T>
class Sweep {
 public:
  Sweep(const Plan& plan, const Features& features, const FastmaxKernel& kernel)
      : plan_(plan), m_(features.count()), width_(features.width()), weights_(m_) {
    features.weigh(kernel, weights_.data());
  }

  /// Calls `add(chunk, state)`, which writes the chunk's own sum, for the chunks up to `add_end`; and
  /// `use(chunk, state)` for those up to `use_end`, with each row of the sum over the chunks that it sees (before it,
  /// or behind it in reverse, when causal; otherwise all) times the row's weight.
  template <class Add, class Use>
  void run(int64_t add_end, int64_t use_end, bool reverse, const Add& add, const Use& use) const {
    const int64_t adds = plan_.chunks_until(add_end), uses = plan_.chunks_until(use_end);
    const int64_t batch = std::min(plan_.heads, plan_.lanes);
    const int64_t group = plan_.causal ? std::clamp(plan_.lanes / batch, int64_t{1}, adds) : adds;
    const Scratch<T> states(batch * group * state_size()), carried(batch * state_size());
    for (int64_t head = 0; head < plan_.heads; head += batch) {
      const int64_t heads = std::min(batch, plan_.heads - head);
      std::fill_n(carried.data(), heads * state_size(), T{0});
      for (int64_t done = 0; done < adds; done += group) {
        const int64_t chunks = std::min(group, adds - done);
        const auto chunk_of = [&](int64_t lane) {
          const int64_t step = done + lane % chunks;
          return chunk(head + lane / chunks, reverse ? adds - 1 - step : step);
        };
        const auto state_of = [&](int64_t lane) { return state(states, lane / chunks * group + lane % chunks); };
        parallel_tasks(heads * chunks, [&](int64_t lane) { add(chunk_of(lane), state_of(lane)); });
        add_up(heads, chunks, group, states, carried);
        if (plan_.causal) parallel_tasks(heads * chunks, [&](int64_t lane) { use(chunk_of(lane), state_of(lane)); });
      }
      if (plan_.causal) continue;
      parallel_tasks(heads * uses,
                     [&](int64_t task) { use(chunk(head + task / uses, task % uses), state(carried, task / uses)); });
    }
  }

 private:
  int64_t state_size() const { return m_ * (width_ + 1); }

  Chunk chunk(int64_t head, int64_t index) const {
    return {head, index, plan_.first + index * plan_.chunk, plan_.chunk};
  }

  State<T> state(const Scratch<T>& states, int64_t i) const {
    T* s = states.data() + i * state_size();
    return {s, s + m_ * width_};
  }

  /// Causal: each state becomes the weighted sum of those before it, in the order they come. Otherwise the carried
  /// one becomes the weighted sum of all.
  void add_up(int64_t heads, int64_t chunks, int64_t group, const Scratch<T>& states,
              const Scratch<T>& carried) const {
    const int64_t rows = std::max(kGrain / 4 / (chunks * (width_ + 1)), int64_t{1});
    const int64_t pieces = (m_ + rows - 1) / rows;
    parallel_tasks(heads * pieces, [&](int64_t task) {
      const int64_t head = task / pieces, begin = task % pieces * rows, end = std::min(begin + rows, m_);
      const State<T> sum = state(carried, head);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const State<T> lane = state(states, head * group + chunk);
        for (int64_t row = begin; row < end; ++row) {
          add_row(sum.s + row * width_, lane.s + row * width_, width_, weights_[row]);
          add_row(sum.z + row, lane.z + row, 1, weights_[row]);
        }
      }
      if (plan_.causal) return;
      for (int64_t row = begin; row < end; ++row) {
        scale_row(sum.s + row * width_, width_, weights_[row]);
        scale_row(sum.z + row, 1, weights_[row]);
      }
    });
  }

  static void add_row(T* sum, T* lane, int64_t size, T weight) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      const T own = lane[i];
      lane[i] = sum[i] * weight;
      sum[i] += own;
    }
  }

  static void scale_row(T* sum, int64_t size, T weight) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) sum[i] *= weight;
  }

  const Plan& plan_;
  int64_t m_, width_;
  Scratch<T> weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
