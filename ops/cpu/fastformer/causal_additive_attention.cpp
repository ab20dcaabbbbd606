#include <linnet/ops/cpu/fastformer/causal_additive_tile.h>

/// Causal additive attention: Wu et al. 2021, eqs. 3–6, with each sum over the tokens up to i, so that each token has
/// global vectors of its own. A tile computes them from the pools before it. Forward saves these pools, and backward
/// computes the rest again.
///
/// A task takes some heads of one sequence from its first token to its last. If that makes too few tasks, sequences
/// are split into chunks too, and read more often: first each chunk is pooled alone, then these pools are merged into
/// the pools before each chunk. The split depends on sizes alone.

namespace linnet::cpu::LINNET_ISA {
namespace {

using namespace additive;

/// The least number of channels of a task, so that it reads whole cache lines.
constexpr int64_t kGroupChannels = 64;
/// With fewer tasks than this, sequences are split into chunks. That takes three passes instead of one, so it pays
/// only if it gives work to more threads.
constexpr int64_t kTasks = 4;
/// The least number of tiles of a chunk.
constexpr int64_t kChunkTiles = 8;

template <class T, class Width>
class CausalAttention {
 public:
  CausalAttention(const View& pools, const AdditiveAttentionInputs& in, Width width)
      : in_(in),
        pools_(data<T>(pools)),
        width_(width),
        batch_(in.q.shape[0]),
        heads_(in.q.shape[1]),
        tokens_(in.q.shape[2]),
        tiles_(ceil_div(tokens_, kTile)),
        group_(std::clamp(kGroupChannels / std::max(int64_t{width}, int64_t{1}), int64_t{1},
                          std::max(heads_, int64_t{1}))),
        groups_(ceil_div(heads_, group_)) {
    const int64_t chunks_wanted = (kTasks + batch_ * groups_ - 1) / std::max(batch_ * groups_, int64_t{1});
    chunk_tiles_ = std::max(kChunkTiles, (tiles_ + chunks_wanted - 1) / std::max(chunks_wanted, int64_t{1}));
    chunks_ = ceil_div(tiles_, chunk_tiles_);
  }

  void forward(const View& u) const {
    for (const int stage : {0, 1}) {
      for (int64_t b = 0; b < batch_ && chunks_ > 0; ++b) pool(stage, b, 0).clear(heads_, width_);
      if (chunks_ > 1) pool_chunks(stage);
    }
    for_each_chunk([&](const HeadChunk& chunk, int64_t) {
      CausalTile<T, Width> tile(in_, chunk, width_);
      load(tile, chunk.begin / kTile);
      for (int64_t begin = chunk.begin; begin < chunk.end; begin += kTile) {
        store(tile, begin / kTile);
        tile.pool_queries(begin, std::min(kTile, chunk.end - begin));
        tile.pool_keys();
        tile.multiply(u);
      }
    });
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) const {
    const int64_t size = CarriedCotangents<T>::size(heads_, width_);
    const Scratch<T> memory(2 * batch_ * chunks_ * size), dw(2 * batch_ * chunks_ * heads_ * width_);
    const ChunkCarries keys{memory.data(), size, this}, queries{memory.data() + batch_ * chunks_ * size, size, this};
    std::fill_n(dw.data(), 2 * batch_ * chunks_ * heads_ * width_, T{0});
    keys.clear();
    queries.clear();
    if (chunks_ > 1) {
      carry_chunks(keys,
                   [&](const HeadChunk& chunk, const CarriedCotangents<T>& own, const CarriedCotangents<T>& unused) {
                     reverse<Reach::key>(chunk, out, du, own, unused, nullptr, nullptr);
                   });
      carry_chunks(queries,
                   [&](const HeadChunk& chunk, const CarriedCotangents<T>& own, const CarriedCotangents<T>& key) {
                     keys.at(chunk).copy_to(key, chunk.heads, width_);
                     reverse<Reach::query>(chunk, out, du, key, own, nullptr, nullptr);
                   });
    }
    T *dw_q = dw.data(), *dw_k = dw_q + batch_ * chunks_ * heads_ * width_;
    for_each_chunk([&](const HeadChunk& chunk, int64_t index) {
      const int64_t first = (index * heads_ + chunk.head) * width_;
      reverse<Reach::all>(chunk, out, du, keys.at(chunk), queries.at(chunk), dw_q + first, dw_k + first);
    });
    sum_weights(out.dw_q, dw_q);
    sum_weights(out.dw_k, dw_k);
  }

 private:
  /// The cotangents that each chunk of each sequence receives from the tokens after it.
  struct ChunkCarries {
    T* data;
    int64_t size;
    const CausalAttention* of;

    CarriedCotangents<T> at(int64_t b, int64_t index) const {
      return {data + (b * of->chunks_ + index) * size, of->heads_, of->width_};
    }
    CarriedCotangents<T> at(const HeadChunk& chunk) const {
      return at(chunk.b, chunk.begin / kTile / of->chunk_tiles_).from(chunk.head, of->width_);
    }
    void clear() const {
      for (int64_t i = 0; i < of->batch_ * of->chunks_; ++i) at(0, i).clear(of->heads_, of->width_);
    }
  };

  /// Calls `f(chunk, index)` for each chunk of each sequence, some heads at a time; `index` counts the chunks of all
  /// sequences.
  template <class F>
  void for_each_chunk(F&& f) const {
    const int64_t cost = std::min(chunk_tiles_ * kTile, tokens_) * group_ * width_;
    parallel_for(batch_ * chunks_ * groups_, std::max(kGrain / std::max(cost, int64_t{1}), int64_t{1}),
                 [&](int64_t first, int64_t last) {
                   for (int64_t task = first; task < last; ++task) {
                     const int64_t index = task / groups_, head = task % groups_ * group_;
                     const int64_t begin = index % chunks_ * chunk_tiles_ * kTile;
                     f(HeadChunk{index / chunks_, head, std::min(group_, heads_ - head), begin,
                                 std::min(begin + chunk_tiles_ * kTile, tokens_)},
                       index);
                   }
                 });
  }

  /// The pool over the tokens before tile `tile`, of stage 0 (queries, α) or 1 (keys, β).
  PooledMean<T> pool(int stage, int64_t b, int64_t tile) const {
    return {pools_ + ((stage * batch_ + b) * tiles_ + tile) * PooledMean<T>::size(heads_, width_), heads_, width_};
  }
  void load(const CausalTile<T, Width>& tile, int64_t index) const {
    const HeadChunk& chunk = tile.chunk();
    pool(0, chunk.b, index).from(chunk.head, width_).copy_to(tile.queries(), chunk.heads, width_);
    pool(1, chunk.b, index).from(chunk.head, width_).copy_to(tile.keys(), chunk.heads, width_);
  }
  void store(const CausalTile<T, Width>& tile, int64_t index) const {
    const HeadChunk& chunk = tile.chunk();
    tile.queries().copy_to(pool(0, chunk.b, index).from(chunk.head, width_), chunk.heads, width_);
    tile.keys().copy_to(pool(1, chunk.b, index).from(chunk.head, width_), chunk.heads, width_);
  }

  /// The pools before each chunk: each chunk is pooled alone, and the results are merged in order.
  void pool_chunks(int stage) const {
    const int64_t size = PooledMean<T>::size(heads_, width_);
    const Scratch<T> memory(batch_ * chunks_ * size);
    for_each_chunk([&](const HeadChunk& chunk, int64_t index) {
      if (chunk.end == tokens_) return;
      CausalTile<T, Width> tile(in_, chunk, width_);
      tile.queries().clear(chunk.heads, width_);
      tile.keys().clear(chunk.heads, width_);
      if (stage == 1)
        pool(0, chunk.b, chunk.begin / kTile).from(chunk.head, width_).copy_to(tile.queries(), chunk.heads, width_);
      for (int64_t begin = chunk.begin; begin < chunk.end; begin += kTile) {
        tile.pool_queries(begin, kTile);
        if (stage == 1) tile.pool_keys();
      }
      const PooledMean<T> sum = PooledMean<T>(memory.data() + index * size, heads_, width_).from(chunk.head, width_);
      (stage == 0 ? tile.queries() : tile.keys()).copy_to(sum, chunk.heads, width_);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t index = 1; index < chunks_; ++index) {
        const PooledMean<T> before = pool(stage, b, index * chunk_tiles_);
        pool(stage, b, (index - 1) * chunk_tiles_).copy_to(before, heads_, width_);
        before.merge(PooledMean<T>(memory.data() + (b * chunks_ + index - 1) * size, heads_, width_), heads_, width_);
      }
    }
  }

  /// Fills `carries`. `run_backward(chunk, own, other)` writes to `own` what a chunk passes on when it receives
  /// nothing.
  template <class Backward>
  void carry_chunks(const ChunkCarries& carries, Backward&& run_backward) const {
    const Scratch<T> memory(batch_ * chunks_ * carries.size);
    const ChunkCarries partial{memory.data(), carries.size, this};
    partial.clear();
    for_each_chunk([&](const HeadChunk& chunk, int64_t) {
      if (chunk.begin == 0) return;
      const Scratch<T> other(CarriedCotangents<T>::size(chunk.heads, width_));
      const CarriedCotangents<T> unused(other.data(), chunk.heads, width_);
      unused.clear(chunk.heads, width_);
      run_backward(chunk, partial.at(chunk), unused);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t index = chunks_ - 1; index > 0; --index) {
        carries.at(b, index - 1).set_through(partial.at(b, index), carries.at(b, index), heads_, width_);
      }
    }
  }

  /// Backward from the last tile of a chunk to the first. The gradients of w_q and w_k are summed tile by tile, so
  /// that rounding does not grow with the tokens. Each task updates a copy of its carried cotangents, because other
  /// tasks' heads share cache lines with it in `carries`.
  template <Reach reach>
  void reverse(const HeadChunk& chunk, const AdditiveAttentionGradients& out, const View& du,
               const CarriedCotangents<T>& key_carry, const CarriedCotangents<T>& query_carry, T* dw_q,
               T* dw_k) const {
    const int64_t channels = chunk.heads * width_, size = CarriedCotangents<T>::size(chunk.heads, width_);
    const Scratch<T> sums(2 * channels), memory(2 * size);
    const CarriedCotangents<T> key(memory.data(), chunk.heads, width_),
        query(memory.data() + size, chunk.heads, width_);
    key_carry.copy_to(key, chunk.heads, width_);
    query_carry.copy_to(query, chunk.heads, width_);
    CausalTile<T, Width> tile(in_, chunk, width_);
    for (int64_t index = (chunk.end - 1) / kTile; index >= chunk.begin / kTile; --index) {
      load(tile, index);
      tile.pool_queries(index * kTile, std::min(kTile, chunk.end - index * kTile));
      tile.pool_keys();
      std::fill_n(sums.data(), 2 * channels, T{0});
      tile.template reverse<reach>(out, du, key, query, sums.data(), sums.data() + channels);
      for (int64_t c = 0; c < channels && reach == Reach::all; ++c) {
        dw_q[c] += sums[c];
        dw_k[c] += sums[channels + c];
      }
    }
    key.copy_to(key_carry, chunk.heads, width_);
    query.copy_to(query_carry, chunk.heads, width_);
  }

  /// dw [H, D] = Σ partial / √D, over sequences and chunks.
  void sum_weights(const View& dw, const T* partial) const {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(in_.q.shape[3])));
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) {
        T sum = 0;
        for (int64_t i = 0; i < batch_ * chunks_; ++i) sum += partial[(i * heads_ + h) * width_ + d];
        data<T>(dw)[h * dw.strides[0] + d * dw.strides[1]] = scale * sum;
      }
    }
  }

  const AdditiveAttentionInputs& in_;
  T* pools_;
  Width width_;
  int64_t batch_, heads_, tokens_, tiles_, group_, groups_, chunk_tiles_ = 0, chunks_ = 0;
};

}  // namespace

void causal_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& in) {
  dispatch_floating(u.dtype, [&]<class T>(T) {
    with_width<T>(u.shape[3], [&](auto width) { CausalAttention<T, decltype(width)>(pools, in, width).forward(u); });
  });
}

void causal_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                        const AdditiveAttentionInputs& in) {
  dispatch_floating(du.dtype, [&]<class T>(T) {
    with_width<T>(du.shape[3],
                  [&](auto width) { CausalAttention<T, decltype(width)>(pools, in, width).backward(out, du); });
  });
}

}  // namespace linnet::cpu::LINNET_ISA
