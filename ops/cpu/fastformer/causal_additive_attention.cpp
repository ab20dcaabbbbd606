#include <linnet/ops/cpu/fastformer/causal_additive_tile.h>

/// Causal additive attention: eqs. 3–6 of Wu et al. 2021 with every sum over the tokens up to one's own, so that each
/// token has global vectors of its own. A tile computes those of its tokens from the pools before it; forward leaves
/// these pools, and backward computes the rest again.
///
/// A task takes some heads of one sequence from end to end, once in each pass. Where that makes too few tasks, the
/// sequence is cut into spans too, at the price of reading it more often: each span is first summed up by itself, and
/// from these sums follows what the others leave to it. Sizes alone decide.

namespace linnet::cpu::LINNET_ISA {
namespace {

using namespace additive;

/// Channels of a task at the least, so that it reads whole cache lines.
constexpr int64_t kGroupChannels = 64;
/// With fewer tasks than this, sequences are cut: that takes three passes for one, so it must pay in threads.
constexpr int64_t kTasks = 4;
/// Tiles of a span at the least.
constexpr int64_t kSpanTiles = 8;

template <class T, class Width>
class CausalAttention {
 public:
  CausalAttention(const View& pools, const AdditiveAttentionInputs& problem, Width width)
      : problem_(problem),
        pools_(data<T>(pools)),
        width_(width),
        batch_(problem.q.shape[0]),
        heads_(problem.q.shape[1]),
        tokens_(problem.q.shape[2]),
        tiles_(ceil_div(tokens_, kTile)),
        group_(std::clamp(kGroupChannels / std::max(int64_t{width}, int64_t{1}), int64_t{1},
                          std::max(heads_, int64_t{1}))),
        groups_(ceil_div(heads_, group_)) {
    const int64_t cuts = (kTasks + batch_ * groups_ - 1) / std::max(batch_ * groups_, int64_t{1});
    span_ = std::max(kSpanTiles, (tiles_ + cuts - 1) / std::max(cuts, int64_t{1}));
    spans_ = ceil_div(tiles_, span_);
  }

  void forward(const View& u) const {
    for (const int stage : {0, 1}) {
      for (int64_t b = 0; b < batch_ && spans_ > 0; ++b) pool(stage, b, 0).clear(heads_, width_);
      if (spans_ > 1) pool_spans(stage);
    }
    for_each_element_range([&](const Piece& piece, int64_t) {
      CausalTile<T, Width> tile(problem_, piece, width_);
      load(tile, piece.begin / kTile);
      for (int64_t begin = piece.begin; begin < piece.end; begin += kTile) {
        store(tile, begin / kTile);
        tile.pool_queries(begin, std::min(kTile, piece.end - begin));
        tile.pool_keys();
        tile.multiply(u);
      }
    });
  }

  void backward(const AdditiveAttentionGradients& out, const View& du) const {
    const int64_t size = Carry<T>::size(heads_, width_);
    const Scratch<T> memory(2 * batch_ * spans_ * size), dw(2 * batch_ * spans_ * heads_ * width_);
    const Carries keys{memory.data(), size, this}, queries{memory.data() + batch_ * spans_ * size, size, this};
    std::fill_n(dw.data(), 2 * batch_ * spans_ * heads_ * width_, T{0});
    keys.clear();
    queries.clear();
    if (spans_ > 1) {
      carry_spans(keys, [&](const Piece& piece, const Carry<T>& own, const Carry<T>& unused) {
        reverse<Reach::key>(piece, out, du, own, unused, nullptr, nullptr);
      });
      carry_spans(queries, [&](const Piece& piece, const Carry<T>& own, const Carry<T>& key) {
        keys.at(piece).copy_to(key, piece.heads, width_);
        reverse<Reach::query>(piece, out, du, key, own, nullptr, nullptr);
      });
    }
    T *dw_q = dw.data(), *dw_k = dw_q + batch_ * spans_ * heads_ * width_;
    for_each_element_range([&](const Piece& piece, int64_t span) {
      const int64_t first = (span * heads_ + piece.head) * width_;
      reverse<Reach::all>(piece, out, du, keys.at(piece), queries.at(piece), dw_q + first, dw_k + first);
    });
    sum_weights(out.dw_q, dw_q);
    sum_weights(out.dw_k, dw_k);
  }

 private:
  /// What reaches each span of each sequence from the tokens after it.
  struct Carries {
    T* data;
    int64_t size;
    const CausalAttention* of;

    Carry<T> at(int64_t b, int64_t span) const {
      return {data + (b * of->spans_ + span) * size, of->heads_, of->width_};
    }
    Carry<T> at(const Piece& piece) const {
      return at(piece.b, piece.begin / kTile / of->span_).from(piece.head, of->width_);
    }
    void clear() const {
      for (int64_t i = 0; i < of->batch_ * of->spans_; ++i) at(0, i).clear(of->heads_, of->width_);
    }
  };

  /// Calls `f(piece, span)` for some heads of each span; `span` counts through all sequences.
  template <class F>
  void for_each_element_range(F&& f) const {
    const int64_t cost = std::min(span_ * kTile, tokens_) * group_ * width_;
    parallel_for(batch_ * spans_ * groups_, std::max(kGrain / std::max(cost, int64_t{1}), int64_t{1}),
                 [&](int64_t first, int64_t last) {
                   for (int64_t task = first; task < last; ++task) {
                     const int64_t span = task / groups_, head = task % groups_ * group_;
                     const int64_t begin = span % spans_ * span_ * kTile;
                     f(Piece{span / spans_, head, std::min(group_, heads_ - head), begin,
                             std::min(begin + span_ * kTile, tokens_)},
                       span);
                   }
                 });
  }

  /// Of the tokens before tile `tile`, of the queries (stage 0) or keys.
  Pool<T> pool(int stage, int64_t b, int64_t tile) const {
    return {pools_ + ((stage * batch_ + b) * tiles_ + tile) * Pool<T>::size(heads_, width_), heads_, width_};
  }
  void load(const CausalTile<T, Width>& tile, int64_t index) const {
    const Piece& piece = tile.piece();
    pool(0, piece.b, index).from(piece.head, width_).copy_to(tile.queries(), piece.heads, width_);
    pool(1, piece.b, index).from(piece.head, width_).copy_to(tile.keys(), piece.heads, width_);
  }
  void store(const CausalTile<T, Width>& tile, int64_t index) const {
    const Piece& piece = tile.piece();
    tile.queries().copy_to(pool(0, piece.b, index).from(piece.head, width_), piece.heads, width_);
    tile.keys().copy_to(pool(1, piece.b, index).from(piece.head, width_), piece.heads, width_);
  }

  /// The pools before each span: the sums of the spans, merged in order.
  void pool_spans(int stage) const {
    const int64_t size = Pool<T>::size(heads_, width_);
    const Scratch<T> memory(batch_ * spans_ * size);
    for_each_element_range([&](const Piece& piece, int64_t span) {
      if (piece.end == tokens_) return;
      CausalTile<T, Width> tile(problem_, piece, width_);
      tile.queries().clear(piece.heads, width_);
      tile.keys().clear(piece.heads, width_);
      if (stage == 1)
        pool(0, piece.b, piece.begin / kTile).from(piece.head, width_).copy_to(tile.queries(), piece.heads, width_);
      for (int64_t begin = piece.begin; begin < piece.end; begin += kTile) {
        tile.pool_queries(begin, kTile);
        if (stage == 1) tile.pool_keys();
      }
      const Pool<T> sum = Pool<T>(&memory[span * size], heads_, width_).from(piece.head, width_);
      (stage == 0 ? tile.queries() : tile.keys()).copy_to(sum, piece.heads, width_);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t span = 1; span < spans_; ++span) {
        const Pool<T> before = pool(stage, b, span * span_);
        pool(stage, b, (span - 1) * span_).copy_to(before, heads_, width_);
        before.merge(Pool<T>(&memory[(b * spans_ + span - 1) * size], heads_, width_), heads_, width_);
      }
    }
  }

  /// Fills `carries` by `walk(piece, own, other)`, which leaves in `own` what a piece carries out by itself.
  template <class StridedIndex>
  void carry_spans(const Carries& carries, StridedIndex&& walk) const {
    const Scratch<T> memory(batch_ * spans_ * carries.size);
    const Carries parts{memory.data(), carries.size, this};
    parts.clear();
    for_each_element_range([&](const Piece& piece, int64_t) {
      if (piece.begin == 0) return;
      const Scratch<T> other(Carry<T>::size(piece.heads, width_));
      const Carry<T> unused(other.data(), piece.heads, width_);
      unused.clear(piece.heads, width_);
      walk(piece, parts.at(piece), unused);
    });
    for (int64_t b = 0; b < batch_; ++b) {
      for (int64_t span = spans_ - 1; span > 0; --span) {
        carries.at(b, span - 1).set_through(parts.at(b, span), carries.at(b, span), heads_, width_);
      }
    }
  }

  /// From the last tile of a piece to the first. The weights' gradients are summed tile by tile, so that rounding
  /// does not grow with the tokens; what every token changes is a copy of this task's own, because other tasks' heads
  /// share its cache lines in the carries.
  template <Reach reach>
  void reverse(const Piece& piece, const AdditiveAttentionGradients& out, const View& du, const Carry<T>& key_carry,
               const Carry<T>& query_carry, T* dw_q, T* dw_k) const {
    const int64_t channels = piece.heads * width_, size = Carry<T>::size(piece.heads, width_);
    const Scratch<T> sums(2 * channels), memory(2 * size);
    const Carry<T> key(memory.data(), piece.heads, width_), query(memory.data() + size, piece.heads, width_);
    key_carry.copy_to(key, piece.heads, width_);
    query_carry.copy_to(query, piece.heads, width_);
    CausalTile<T, Width> tile(problem_, piece, width_);
    for (int64_t index = (piece.end - 1) / kTile; index >= piece.begin / kTile; --index) {
      load(tile, index);
      tile.pool_queries(index * kTile, std::min(kTile, piece.end - index * kTile));
      tile.pool_keys();
      std::fill_n(sums.data(), 2 * channels, T{0});
      tile.template reverse<reach>(out, du, key, query, sums.data(), sums.data() + channels);
      for (int64_t c = 0; c < channels && reach == Reach::all; ++c) {
        dw_q[c] += sums[c];
        dw_k[c] += sums[channels + c];
      }
    }
    key.copy_to(key_carry, piece.heads, width_);
    query.copy_to(query_carry, piece.heads, width_);
  }

  /// dw [H, D] = Σ parts / √D, over sequences and spans.
  void sum_weights(const View& dw, const T* parts) const {
    const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(problem_.q.shape[3])));
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t d = 0; d < width_; ++d) {
        T sum = 0;
        for (int64_t i = 0; i < batch_ * spans_; ++i) sum += parts[(i * heads_ + h) * width_ + d];
        data<T>(dw)[h * dw.strides[0] + d * dw.strides[1]] = scale * sum;
      }
    }
  }

  const AdditiveAttentionInputs& problem_;
  T* pools_;
  Width width_;
  int64_t batch_, heads_, tokens_, tiles_, group_, groups_, span_ = 0, spans_ = 0;
};

}  // namespace

void causal_additive_attention(const View& u, const View& pools, const AdditiveAttentionInputs& problem) {
  dispatch_floating(u.dtype, [&]<class T>(T) {
    with_width<T>(u.shape[3],
                  [&](auto width) { CausalAttention<T, decltype(width)>(pools, problem, width).forward(u); });
  });
}

void causal_additive_attention_backward(const AdditiveAttentionGradients& out, const View& du, const View& pools,
                                        const AdditiveAttentionInputs& problem) {
  dispatch_floating(du.dtype, [&]<class T>(T) {
    with_width<T>(du.shape[3],
                  [&](auto width) { CausalAttention<T, decltype(width)>(pools, problem, width).backward(out, du); });
  });
}

}  // namespace linnet::cpu::LINNET_ISA
