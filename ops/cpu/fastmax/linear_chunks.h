#pragma once

#include <linnet/ops/cpu/attention/standardise.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/fastmax/causal_product.h>
#include <linnet/ops/cpu/fastmax/sides.h>
#include <linnet/ops/cpu/fastmax/states.h>

namespace linnet::cpu::LINNET_ISA {

/// Some tokens of one side as rows of their own, x̃ = [x; 1] and ỹ = [y; t]: keys have y = v and t = 1, queries their
/// cotangents.
template <class T>
struct LinearTerms {
  int64_t width;
  Scratch<T> memory;
  Rows<T> x, y;        // [size, D + 1]
  T *inverse_std, *t;  // [size]
  T* room;             // [size, D]
  Sequence<T> from{};
  int64_t first = 0, size = 0;
  bool standardised = false;

  LinearTerms(int64_t width_, int64_t capacity)
      : width(width_),
        memory(capacity * (2 * stride() + width + 2)),
        x{memory.data(), stride()},
        y{x[capacity], stride()},
        inverse_std(y[capacity]),
        t(inverse_std + capacity),
        room(t + capacity) {}

  /// Vectors of x and y begin where those of the memory do.
  int64_t stride() const { return round_up(width + 1, product::kLanes<T>); }

  StandardisedRows<T> standard() const { return {x, inverse_std, width}; }
};

/// What Fastmax of first order, f(t) = a0 + a1 t, does with a chunk: it is linear attention (Katharopoulos et al.
/// 2020), with the tokens themselves, x̃ = [x; 1], as features. All products are of rows as they lie:
///   S = X̃ᵀ·Y,  z = X̃ᵀ·t;   o = (X̃·S) / (X̃·z);   ∂X = Ỹ·[S, z]ᵀ
/// Causal, the sums grow token by token on the way through a chunk, backwards from query to query for the keys.
template <class T>
class LinearChunks {
 public:
  /// A causal chunk may be long, as it is passed through in blocks.
  static constexpr bool kLong = true;

  LinearChunks(const Inputs& in, const Sides<T>& sides)
      : in_(in), sides_(sides), width_(in.width()), weights_(width_ + 1) {
    std::fill_n(weights_.data(), width_, static_cast<T>(in.params.a1));
    weights_[width_] = static_cast<T>(in.params.a0);
  }

  /// Whether it can: there are no features to drop but those of second order.
  static bool computes(const Inputs& in) { return in.params.a2 == 0 && !in.drops_first_order(); }

  /// The weight of each row of a state.
  const T* weights() const { return weights_.data(); }

  /// state = Σ x̃_n [y_n, t_n]ᵀ over a chunk, in the order in which a sweep goes through it.
  void sum(const Chunk& chunk, State<T> state, const Side& side) const {
    LinearTerms<T> terms(width_, kBlock);
    clear(sides_.features(), state);
    for_each_block(chunk, side.end, side.queries, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, terms);
      add(terms, state);
    });
  }

  /// o = F / g for the queries of a chunk. `sum_of_keys`, where not null, becomes the sum over its keys.
  void attend(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& o, const View& g,
              const State<T>* sum_of_keys) const {
    LinearTerms<T> queries(width_, kBlock), keys(width_, causal() ? kBlock : 0);
    const Scratch<T> room(width_ * kBlock);
    const Rows<T> o_rows = head_of<T>(o, chunk.head / o.shape[1], chunk.head % o.shape[1]);
    T denominator[kBlock];
    if (sum_of_keys != nullptr) clear(sides_.features(), *sum_of_keys);
    for_each_block(chunk, side.end, false, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, queries);
      if (causal()) load_weighted(other, chunk.head, first, size, keys, sum_of_keys);
      const Rows<T> out = queries.from.results(queries.first, size, width_, o_rows, room.data());
      multiply(size, false, queries.x, {keys.x, keys.y}, {state.s, width_}, out);
      multiply_z(queries, keys, state.z, denominator);
      divide(size, out, denominator);
      queries.from.store(queries.first, size, width_, out, o_rows);
      for (int64_t n = 0; n < size; ++n) {
        const int64_t i = queries.first + n;
        if (i >= 0 && i < o.shape[2]) data<T>(g)[chunk.head * o.shape[2] + i] = denominator[n];
      }
    });
  }

  /// The gradients of a chunk's queries, or of its keys and values, from the sum over the other side.
  void differentiate(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& dx_view,
                     const View* dy_view, const ChunkSums<T>& sums) const {
    LinearTerms<T> terms(width_, kBlock), others(width_, causal() ? kBlock : 0);
    const Scratch<T> by_y_memory((width_ + 1) * width_), room(width_ * kBlock);
    const Rows<T> by_x{state.s, width_}, by_y{by_y_memory.data(), width_};
    const int64_t b = chunk.head / dx_view.shape[1], h = chunk.head % dx_view.shape[1];
    const Rows<T> dx_rows = head_of<T>(dx_view, b, h);
    const Rows<T> dy_rows = dy_view != nullptr ? head_of<T>(*dy_view, b, h) : Rows<T>{};
    transpose<T>(width_, width_, by_x, by_y);
    std::copy_n(state.z, width_, by_y[width_]);
    if (sums.own != nullptr) clear(sides_.features(), *sums.own);
    if (sums.other != nullptr) clear(sides_.features(), *sums.other);
    const bool reverse = causal() && !side.queries;
    for_each_block(chunk, side.end, reverse, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, terms);
      if (causal()) load_weighted(other, chunk.head, first, size, others, sums.other);
      if (dy_view != nullptr) {
        const Rows<T> dy = terms.from.results(terms.first, size, width_, dy_rows, room.data());
        multiply(size, reverse, terms.x, {others.x, others.y}, by_x, dy);
        terms.from.store(terms.first, size, width_, dy, dy_rows);
      }
      const Rows<T> dx = terms.from.results(terms.first, size, width_, dx_rows, room.data());
      multiply(size, reverse, terms.y, {others.y, others.x}, by_y, dx);
      if (sums.own != nullptr) add(terms, *sums.own);
      if (terms.standardised) terms.standard().differentiate(size, dx);
      terms.from.store(terms.first, size, width_, dx, dx_rows);
    });
  }

 private:
  /// Tokens that are handled together, in the nearest caches.
  static constexpr int64_t kBlock = 64;

  bool causal() const { return in_.params.causal; }

  /// Calls `f(first, size)` for the blocks of a chunk, up to position `end`.
  template <class F>
  void for_each_block(const Chunk& chunk, int64_t end, bool reverse, F f) const {
    const int64_t size = kBlock, blocks = ceil_div(std::min(chunk.first + chunk.size, end) - chunk.first, size);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t first = chunk.first + (reverse ? blocks - 1 - i : i) * size;
      f(first, std::min(size, end - first));
    }
  }

  void load(const Side& side, int64_t head, int64_t position, int64_t size, LinearTerms<T>& terms) const {
    terms.from = sides_.sequence(side, head);
    terms.first = position - side.causal_offset;
    terms.size = size;
    terms.standardised = in_.params.standardise;
    const Rows<const T> x = tokens_of(terms.from, terms.first, size, width_, terms.room);
    if (terms.standardised) {
      terms.standard().make(size, [&](int64_t n) { return x[n]; });
    } else {
      copy(size, x, terms.x);
    }
    for (int64_t n = 0; n < size; ++n) terms.x[n][width_] = terms.from.has(terms.first + n) ? T{1} : T{0};
    if (!side.queries) {
      copy(size, tokens_of(sides_.keys_of(in_.v, head), terms.first, size, width_, terms.room), terms.y);
      std::fill_n(terms.t, size, T{1});
    } else if (side.cotangents != nullptr) {
      sides_.load_cotangents(*side.cotangents, head, terms.first, size, terms.y, terms.t);
    } else {
      return;
    }
    for (int64_t n = 0; n < size; ++n) terms.y[n][width_] = terms.t[n];
  }

  void copy(int64_t rows, Rows<const T> from, Rows<T> to) const {
    with_width<T>(width_, [&](auto width) {
      for (int64_t n = 0; n < rows; ++n) {
        const T* x = from[n];
        T* out = to[n];
#pragma omp simd
        for (int64_t d = 0; d < width; ++d) out[d] = x[d];
      }
    });
  }

  /// With w∘x̃ as x̃; x̃ itself is added to `sum` where not null.
  void load_weighted(const Side& side, int64_t head, int64_t position, int64_t size, LinearTerms<T>& terms,
                     const State<T>* sum) const {
    load(side, head, position, size, terms);
    if (sum != nullptr) add(terms, *sum);
    const T a1 = weights_[0], a0 = weights_[width_];
    for (int64_t n = 0; n < size; ++n) {
      T* x = terms.x[n];
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) x[d] *= a1;
      x[width_] *= a0;
    }
  }

  /// state += Σ x̃_n [y_n, t_n]ᵀ
  void add(const LinearTerms<T>& terms, State<T> state) const {
    const Rows<T> s{state.s, width_}, z{state.z, 0};
    tile_product<T>(width_ + 1, width_, terms.size, {terms.x.data, 1, terms.x.stride}, terms.y, s, true);
    tile_product<T>(1, width_, terms.size, {terms.t, 0, 1}, terms.x, z, true);
    for (int64_t n = 0; n < terms.size; ++n) state.z[width_] += terms.t[n] * terms.x[n][width_];
  }

  /// Pairs of rows [D + 1] and [D].
  struct Pairs {
    Rows<const T> left, right;
  };

  /// out_n = own_n·sum, for all tokens at once; or causal, for one after another or in reverse, when the sum has
  /// grown by the other side's left_nᵀ·right_n.
  void multiply(int64_t size, bool reverse, Rows<const T> own, Pairs others, Rows<T> sum, Rows<T> out) const {
    if (!causal()) {
      return tile_product<T>(size, width_, width_ + 1, {own.data, own.stride, 1}, sum, out, false);
    }
    const auto ordered = [&](auto rows) { return reverse ? decltype(rows){rows[size - 1], -rows.stride} : rows; };
    causal_product<T>(width_ + 1, width_, size, ordered(others.left), ordered(others.right), ordered(own), sum,
                      ordered(out));
  }

  /// out_n = x̃_n·z for queries; causal, when z has grown by the key's x̃_n.
  void multiply_z(const LinearTerms<T>& queries, const LinearTerms<T>& keys, T* z, T* out) const {
    if (!causal()) {
      with_width<T>(width_, [&](auto width) {
        dot_rows(queries.size, [&](int64_t n) { return queries.x[n]; }, [&](int64_t) { return z; }, out, width);
      });
      for (int64_t n = 0; n < queries.size; ++n) out[n] += queries.x[n][width_] * z[width_];
      return;
    }
    for (int64_t n = 0; n < queries.size; ++n) {
      const T *x = queries.x[n], *key = keys.x[n];
      T total = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t d = 0; d <= width_; ++d) {
        z[d] += key[d];
        total += x[d] * z[d];
      }
      out[n] = total;
    }
  }

  void divide(int64_t size, Rows<T> rows, const T* by) const {
    for (int64_t n = 0; n < size; ++n) {
      const T inverse = by[n] != 0 ? 1 / by[n] : T{0};
      T* row = rows[n];
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) row[d] *= inverse;
    }
  }

  const Inputs& in_;
  const Sides<T>& sides_;
  int64_t width_;
  Scratch<T> weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
