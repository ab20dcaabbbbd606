#pragma once

#include <linnet/ops/cpu/attention/mapped_rows.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/fastmax/causal_product.h>
#include <linnet/ops/cpu/fastmax/states.h>
#include <linnet/ops/cpu/fastmax/token_loader.h>

namespace linnet::cpu::LINNET_ISA {

/// Some tokens of one side, copied as rows x̃ = [x; 1] and ỹ = [y; t]: keys have y = v and t = 1, queries their
/// cotangents (see `Terms`).
template <class T>
struct LinearTerms {
  int64_t width;
  Scratch<T> memory;
  Rows<T> x, y;    // [size, D + 1]
  T *inverse, *t;  // [size]
  T* scratch;      // [size, D]
  Sequence<T> from{};
  int64_t first = 0, size = 0;
  bool queries = false;
  RowMap map = RowMap::none;

  LinearTerms(int64_t width_, int64_t capacity)
      : width(width_),
        memory(capacity * (2 * stride() + width + 2)),
        x{memory.data(), stride()},
        y{x[capacity], stride()},
        inverse(y[capacity]),
        t(inverse + capacity),
        scratch(t + capacity) {}

  /// Rows of x and y are padded to whole vector registers.
  int64_t stride() const { return round_up(width + 1, product::kLanes<T>); }

  MappedRows<T> mapped() const { return {map, queries, x, inverse, width}; }
};

/// One chunk of Fastmax of first order, f(t) = a0 + a1 t: linear attention (Katharopoulos et al. 2020), whose
/// features are the tokens themselves, x̃ = [x; 1]. All products read rows in place:
///   S = X̃ᵀ·Y,  z = X̃ᵀ·t;   o = (X̃·S) / (X̃·z);   ∂X = Ỹ·[S, z]ᵀ
/// When causal, the sums grow token by token within a chunk, for the gradients of keys from the last query to the
/// first.
template <class T>
class LinearChunks {
 public:
  /// A causal chunk may have many subchunks: its sums grow token by token.
  static constexpr bool kLong = true;

  LinearChunks(const FastmaxInputs& in, const TokenLoader<T>& loader)
      : in_(in), loader_(loader), width_(in.width()), weights_(width_ + 1) {
    std::fill_n(weights_.data(), width_, static_cast<T>(in.params.a1));
    weights_[width_] = static_cast<T>(in.params.a0);
  }

  /// Whether this class computes the call: order 1 without dropout, or with quadratic dropout, which drops nothing
  /// there.
  static bool computes(const FastmaxInputs& in) { return in.params.a2 == 0 && !in.drops_first_order(); }

  /// The weight of each row of a state.
  const T* weights() const { return weights_.data(); }

  /// state = Σ x̃_n [y_n, t_n]ᵀ over a chunk, in the order of a scan.                 [FAST eq.28] [FAST eq.29]
  void sum(const Chunk& chunk, State<T> state, const Side& side) const {
    LinearTerms<T> terms(width_, kSubchunk);
    clear(loader_.features(), state);
    for_each_subchunk(chunk, side.end, side.queries, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, terms);
      add(terms, state);
    });
  }

  /// o = F / g for the queries of a chunk, from the sum over the other chunks' keys. `sum_of_keys`, if not null,
  /// becomes the sum over its own keys.                                                        [FAST eq.19]
  void attend(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& o, const View& g,
              const State<T>* sum_of_keys) const {
    LinearTerms<T> queries(width_, kSubchunk), keys(width_, causal() ? kSubchunk : 0);
    const Scratch<T> scratch(width_ * kSubchunk);
    const Rows<T> o_rows = head_of<T>(o, chunk.head / o.shape[1], chunk.head % o.shape[1]);
    T denominator[kSubchunk];
    if (sum_of_keys != nullptr) clear(loader_.features(), *sum_of_keys);
    for_each_subchunk(chunk, side.end, false, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, queries);
      if (causal()) load_weighted(other, chunk.head, first, size, keys, sum_of_keys);
      const Rows<T> out = queries.from.results(queries.first, size, width_, o_rows, scratch.data());
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

  /// The gradients of a chunk's queries, or of its keys and values, from the sum over the other side:
  /// the gradient of [FAST eq.26] [FAST eq.27], causal of [FAST eq.32] [FAST eq.33].
  void differentiate(const Chunk& chunk, State<T> state, const Side& side, const Side& other, const View& dx_view,
                     const View* dy_view, const ChunkStates<T>& sums) const {
    LinearTerms<T> terms(width_, kSubchunk), others(width_, causal() ? kSubchunk : 0);
    const Scratch<T> by_y_memory((width_ + 1) * width_), scratch(width_ * kSubchunk);
    const Rows<T> by_x{state.s, width_}, by_y{by_y_memory.data(), width_};
    const int64_t b = chunk.head / dx_view.shape[1], h = chunk.head % dx_view.shape[1];
    const Rows<T> dx_rows = head_of<T>(dx_view, b, h);
    const Rows<T> dy_rows = dy_view != nullptr ? head_of<T>(*dy_view, b, h) : Rows<T>{};
    transpose<T>(width_, width_, by_x, by_y);
    std::copy_n(state.z, width_, by_y[width_]);
    if (sums.own != nullptr) clear(loader_.features(), *sums.own);
    if (sums.other != nullptr) clear(loader_.features(), *sums.other);
    const bool reverse = causal() && !side.queries;
    for_each_subchunk(chunk, side.end, reverse, [&](int64_t first, int64_t size) {
      load(side, chunk.head, first, size, terms);
      if (causal()) load_weighted(other, chunk.head, first, size, others, sums.other);
      if (dy_view != nullptr) {
        const Rows<T> dy = terms.from.results(terms.first, size, width_, dy_rows, scratch.data());
        multiply(size, reverse, terms.x, {others.x, others.y}, by_x, dy);
        terms.from.store(terms.first, size, width_, dy, dy_rows);
      }
      const Rows<T> dx = terms.from.results(terms.first, size, width_, dx_rows, scratch.data());
      multiply(size, reverse, terms.y, {others.y, others.x}, by_y, dx);
      if (sums.own != nullptr) add(terms, *sums.own);
      if (terms.map != RowMap::none) terms.mapped().differentiate(size, dx);
      terms.from.store(terms.first, size, width_, dx, dx_rows);
    });
  }

 private:
  /// Tokens that are loaded together and stay in the L1 or L2 cache.
  static constexpr int64_t kSubchunk = 64;

  bool causal() const { return in_.params.causal; }

  /// Calls `f(first, size)` for the subchunks of a chunk, up to position `end`.
  template <class F>
  void for_each_subchunk(const Chunk& chunk, int64_t end, bool reverse, F f) const {
    const int64_t size = kSubchunk, subchunks = ceil_div(std::min(chunk.first + chunk.size, end) - chunk.first, size);
    for (int64_t i = 0; i < subchunks; ++i) {
      const int64_t first = chunk.first + (reverse ? subchunks - 1 - i : i) * size;
      f(first, std::min(size, end - first));
    }
  }

  void load(const Side& side, int64_t head, int64_t position, int64_t size, LinearTerms<T>& terms) const {
    terms.from = loader_.sequence(side, head);
    terms.first = position - side.causal_offset;
    terms.size = size;
    terms.queries = side.queries;
    terms.map = in_.params.map;
    const Rows<const T> x = tokens_of(terms.from, terms.first, size, width_, terms.scratch);
    if (terms.map != RowMap::none) {
      terms.mapped().make(size, [&](int64_t n) { return x[n]; });
    } else {
      copy(size, x, terms.x);
    }
    for (int64_t n = 0; n < size; ++n) {
      const bool has = terms.from.has(terms.first + n);
      if (!has && terms.map == RowMap::elu_plus_one) terms.mapped().clear(n);  // the other maps turn 0 into 0
      terms.x[n][width_] = has ? T{1} : T{0};
    }
    if (!side.queries) {
      copy(size, tokens_of(loader_.keys_of(in_.v, head), terms.first, size, width_, terms.scratch), terms.y);
      std::fill_n(terms.t, size, T{1});
    } else if (side.cotangents != nullptr) {
      loader_.load_cotangents(*side.cotangents, head, terms.first, size, terms.y, terms.t);
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

  /// `load`, with x̃ replaced by w∘x̃. Adds the terms with x̃ itself to `sum` if not null.
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

  /// Rows left_n and right_n of an outer product left_nᵀ·right_n.
  struct OuterFactors {
    Rows<const T> left, right;
  };

  /// out_n = own_n·sum for all tokens at once                                                    [FAST eq.26]
  /// or, causal, one token after another, forward or in reverse, after sum += left_nᵀ·right_n of the other side
  ///                                                                              [FAST eq.32] [FAST eq.34]
  void multiply(int64_t size, bool reverse, Rows<const T> own, OuterFactors others, Rows<T> sum, Rows<T> out) const {
    if (!causal()) {
      return tile_product<T>(size, width_, width_ + 1, {own.data, own.stride, 1}, sum, out, false);
    }
    const auto ordered = [&](auto rows) { return reverse ? decltype(rows){rows[size - 1], -rows.stride} : rows; };
    causal_product<T>(width_ + 1, width_, size, ordered(others.left), ordered(others.right), ordered(own), sum,
                      ordered(out));
  }

  /// out_n = x̃_n·z for queries                                                                  [FAST eq.27]
  /// or, causal, after z += x̃_n of the key                                        [FAST eq.33] [FAST eq.35]
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

  const FastmaxInputs& in_;
  const TokenLoader<T>& loader_;
  int64_t width_;
  Scratch<T> weights_;
};

}  // namespace linnet::cpu::LINNET_ISA
