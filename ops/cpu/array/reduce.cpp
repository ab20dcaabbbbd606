#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/strided_index.h>
#include <linnet/ops/cpu/device/transpose.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Reductions, and what goes along a dim like one: arg_reduce, cumsum and softmax. Memory bounds them where lines are
/// long: each is read once, in the order in which it lies, many sums side by side so that none waits for its own last
/// addition. Softmax is bound by its exponentials; what it goes over again it finds in the cache.

namespace linnet::cpu::LINNET_ISA {
namespace {

// ---- What is folded: `load` turns an element into an accumulator, `combine` joins two. ----

/// Floating sums are accumulated in double, so that a float32 sum of any length is good to its last bits.
template <class X>
struct Sum {
  using Acc = std::conditional_t<std::is_floating_point_v<X>, double, int64_t>;
  static constexpr Acc identity = 0;
  static constexpr bool kInOrder = std::is_floating_point_v<X>;
  static Acc load(X x) { return static_cast<Acc>(x); }
  static Acc combine(Acc a, Acc b) { return a + b; }
};

template <class X>
struct SumSquares : Sum<X> {
  static double load(X x) { return static_cast<double>(x) * static_cast<double>(x); }
};

template <class X>
struct Max {
  using Acc = X;
  static constexpr bool kInOrder = false;
  static constexpr X identity =
      std::is_floating_point_v<X> ? -std::numeric_limits<X>::infinity() : std::numeric_limits<X>::lowest();
  static X load(X x) { return x; }
  static X combine(X a, X b) { return b > a || b != b ? b : a; }  // a NaN a stays, as no b is greater
};

template <class X>
struct Min {
  using Acc = X;
  static constexpr bool kInOrder = false;
  static constexpr X identity =
      std::is_floating_point_v<X> ? std::numeric_limits<X>::infinity() : std::numeric_limits<X>::max();
  static X load(X x) { return x; }
  static X combine(X a, X b) { return b < a || b != b ? b : a; }
};

template <class X>
struct Any {
  using Acc = uint8_t;
  static constexpr bool kInOrder = false;
  static constexpr Acc identity = 0;
  static Acc load(X x) { return x != X{}; }
  static Acc combine(Acc a, Acc b) { return a | b; }
};

template <class X>
struct All {
  using Acc = uint8_t;
  static constexpr bool kInOrder = false;
  static constexpr Acc identity = 1;
  static Acc load(X x) { return x != X{}; }
  static Acc combine(Acc a, Acc b) { return a & b; }
};

// ---- How: x is walked in the order of its memory, whatever the order of its dims. ----

/// The dims of x by falling stride, those that repeat it (stride 0) outermost; out has stride 0 where they are
/// reduced.
CollapsedDims<2> in_order_of_memory(const View& out, const View& x) {
  int64_t shape[CollapsedDims<2>::kMaxRank], out_strides[CollapsedDims<2>::kMaxRank],
      x_strides[CollapsedDims<2>::kMaxRank];
  int rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (x.shape[d] == 1) continue;
    int place = rank++;
    const auto outer_to = [&](int other) {
      return x_strides[other] != 0 && (x.strides[d] == 0 || x.strides[d] > x_strides[other]);
    };
    for (; place > 0 && outer_to(place - 1); --place) {
      shape[place] = shape[place - 1];
      out_strides[place] = out_strides[place - 1];
      x_strides[place] = x_strides[place - 1];
    }
    shape[place] = x.shape[d];
    out_strides[place] = out.shape[d] == 1 ? 0 : out.strides[d];
    x_strides[place] = x.strides[d];
  }
  CollapsedDims<2> nest(
      {View{out.data, out.dtype, rank, shape, out_strides}, View{x.data, x.dtype, rank, shape, x_strides}});
  if (nest.size[0] == 1) nest.stride[0][0] = 0;
  return nest;
}

/// Dims begin … end − 1, but for one, by whether out keeps them.
struct Dims {
  StridedIndex<2> kept;     ///< offsets in out and x
  StridedIndex<1> reduced;  ///< offsets in x

  Dims(const CollapsedDims<2>& nest, int begin, int end, int without = -1) {
    for (int d = begin; d < end; ++d) {
      if (d == without) continue;
      if (nest.stride[d][0] == 0) {
        reduced.add(nest.size[d], {nest.stride[d][1]});
      } else {
        kept.add(nest.size[d], nest.stride[d]);
      }
    }
  }
};

constexpr int64_t kLanes = 32;

/// Joins a stretch of a row to `acc`, in interleaved lanes that vectorise and hide the latency of additions. With
/// what is fetched ahead, norms are 1.5 times as fast from memory.
template <class F, class X>
typename F::Acc fold_row(typename F::Acc acc, const X* x, int64_t n, int64_t step) {
  if (step == 1 && n >= kLanes) {
    typename F::Acc lane[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = F::identity;
    for (; n >= kLanes; n -= kLanes, x += kLanes) {
      fetch_ahead(x, kLanes);
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = F::combine(lane[l], F::load(x[l]));
    }
#pragma GCC unroll 8
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t l = 0; l < half; ++l) lane[l] = F::combine(lane[l], lane[l + half]);
    }
    acc = F::combine(acc, lane[0]);
  }
  for (int64_t i = 0; i < n; ++i) acc = F::combine(acc, F::load(x[i * step]));
  return acc;
}

/// Joins one of n elements to each of n accumulators. Not inlined: g++ would exchange its loop with one around it.
template <class F, class X>
[[gnu::noinline]] void fold_each(typename F::Acc* acc, const X* x, int64_t n, int64_t step) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) acc[i] = F::combine(acc[i], F::load(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) acc[i] = F::combine(acc[i], F::load(x[i * step]));
  }
}

/// Reduces x with F. A task is a part of what some results are made of: a result from much input is made of
/// several parts, which are then joined in order; many results from little input each share a task.
template <class F, class Y, class X>
class Reduction {
  using Acc = typename F::Acc;
  static constexpr int64_t kColumns = 256;

 public:
  Reduction(Y* out, const X* x, const CollapsedDims<2>& nest)
      : out_(out),
        x_(x),
        n_(nest.size[0]),
        out_step_(nest.stride[0][0]),
        x_step_(nest.stride[0][1]),
        outer_(nest, 1, nest.rank) {
    const bool columns = out_step_ != 0;
    width_ = columns ? (n_ < kColumns ? n_ : kColumns) : 1;
    blocks_ = columns ? ceil_div(n_, width_) : 1;
    units_ = columns ? outer_.reduced.count : outer_.reduced.count * n_;
    part_ = kGrain / width_;
    parts_ = ceil_div(units_, part_);
  }

  /// Whether a result is made of one part: it is then folded in the order of memory.
  bool is_whole() const { return parts_ == 1; }

  void run() const {
    const int64_t groups = outer_.kept.count * blocks_;
    if (parts_ == 1) {
      const int64_t work = units_ * width_;
      parallel_for(groups, work < kGrain ? kGrain / work : 1, [&](int64_t begin, int64_t end) {
        Acc acc[kColumns];
        for (int64_t group = begin; group < end; ++group) {
          fold(group, 0, units_, acc);
          store(group, acc);
        }
      });
      return;
    }
    const Scratch<Acc> partial(groups * parts_ * width_);
    parallel_tasks(groups * parts_, [&](int64_t task) {
      const int64_t begin = task % parts_ * part_;
      fold(task / parts_, begin, begin + part_ < units_ ? begin + part_ : units_, partial.data() + task * width_);
    });
    for (int64_t group = 0; group < groups; ++group) {
      Acc* acc = partial.data() + group * parts_ * width_;
      for (int64_t part = 1; part < parts_; ++part) {
        for (int64_t c = 0; c < width(group); ++c) acc[c] = F::combine(acc[c], acc[part * width_ + c]);
      }
      store(group, acc);
    }
  }

 private:
  /// A group is one result, or a block of neighbours that are reduced side by side.
  int64_t width(int64_t group) const {
    const int64_t rest = n_ - group % blocks_ * width_;
    return rest < width_ ? rest : width_;
  }

  void fold(int64_t group, int64_t begin, int64_t end, Acc* acc) const {
    const X* x = x_ + outer_.kept.at(group / blocks_)[1] + group % blocks_ * width_ * x_step_;
    if (out_step_ == 0) {
      fold_rows(x, begin, end, acc);
    } else {
      fold_columns(x, width(group), begin, end, acc);
    }
  }

  /// Elements begin … end − 1 of what makes one result, which lies in rows of n.
  void fold_rows(const X* x, int64_t begin, int64_t end, Acc* acc) const {
    *acc = F::identity;
    int64_t i = begin % n_;
    outer_.reduced.for_each(begin / n_, ceil_div(end, n_), [&](const auto& at) {
      const int64_t count = n_ - i < end - begin ? n_ - i : end - begin;
      *acc = fold_row<F>(*acc, x + at[0] + i * x_step_, count, x_step_);
      begin += count;
      i = 0;
    });
  }

  /// Rows begin … end − 1 of what makes `width` results, side by side.
  void fold_columns(const X* x, int64_t width, int64_t begin, int64_t end, Acc* acc) const {
    for (int64_t c = 0; c < width; ++c) acc[c] = F::identity;
    outer_.reduced.for_each(begin, end, [&](const auto& at) { fold_each<F>(acc, x + at[0], width, x_step_); });
  }

  void store(int64_t group, const Acc* acc) const {
    Y* out = out_ + outer_.kept.at(group / blocks_)[0] + group % blocks_ * width_ * out_step_;
    for (int64_t c = 0; c < width(group); ++c) out[c * out_step_] = static_cast<Y>(acc[c]);
  }

  Y* out_;
  const X* x_;
  int64_t n_, out_step_, x_step_;  ///< of the innermost dim; out_step is 0 when it is reduced
  Dims outer_;
  int64_t width_;   ///< results per group
  int64_t blocks_;  ///< groups that the innermost dim is cut into
  int64_t units_;   ///< elements (of a row) or rows (of columns) that a group reduces
  int64_t part_;    ///< units per task
  int64_t parts_;   ///< tasks per group
};

constexpr int64_t kTile = 64;     ///< results that a tile has side by side
constexpr int64_t kWindow = 128;  ///< elements of x, from first to last, that it has of each at a time

/// How to reduce by tiles: `dim` is the one that results lie along side by side, 0 if there is none; the dims up to
/// `inner` are the window.
struct Tiling {
  int dim = 0, inner = 0;
  int64_t window = 1;

  /// For rows of less than `least` elements, and columns too few to lie side by side in vectors as they are.
  Tiling(const CollapsedDims<2>& nest, int64_t least) {
    constexpr int64_t kColumns = 32;
    if (nest.size[0] >= (nest.stride[0][0] == 0 ? least : kColumns)) return;
    const auto results = [&](int d) { return nest.stride[d][0] == 0 ? 0 : std::min(nest.size[d], kTile); };
    for (int d = 1; d < nest.rank; ++d) {
      if (results(d) >= transposition::kBlock && (dim == 0 || results(d) > results(dim))) dim = d;
    }
    for (int64_t elements = 1; inner < dim; ++inner) {
      const int64_t further = window + (nest.size[inner] - 1) * nest.stride[inner][1];
      if (further > kWindow || elements * nest.size[inner] > kWindow) break;
      window = further;
      elements *= nest.size[inner];
    }
  }
};

/// With several very short rows as one dim inside the rest of theirs, where that goes evenly: windows then fill
/// blocks.
CollapsedDims<2> with_rows_together(CollapsedDims<2> nest) {
  constexpr int64_t kRows = transposition::kBlock;
  if (nest.rank < 2 || nest.size[0] >= kRows || nest.stride[1][0] == 0 || nest.size[1] % kRows != 0) return nest;
  for (int d = nest.rank++; d > 1; --d) {
    nest.size[d] = nest.size[d - 1];
    nest.stride[d] = nest.stride[d - 1];
  }
  nest.size[1] = kRows;
  nest.size[2] /= kRows;
  for (int64_t& stride : nest.stride[2]) stride *= kRows;
  return nest;
}

/// Reduces short rows with F, each in the order of its memory, by transposing tiles of x: rows then lie side by side.
template <class F, class Y, class X>
class TiledReduction {
  using Acc = typename F::Acc;
  using Bits = std::conditional_t<std::is_same_v<X, bool>, uint8_t, X>;

 public:
  TiledReduction(Y* out, const X* x, const CollapsedDims<2>& nest, const Tiling& tiling)
      : out_(out),
        x_(x),
        n_(nest.size[tiling.dim]),
        out_step_(nest.stride[tiling.dim][0]),
        x_step_(nest.stride[tiling.dim][1]),
        window_(tiling.window),
        outer_(nest, tiling.inner, nest.rank, tiling.dim) {
    const Dims inner(nest, 0, tiling.inner);
    inner.kept.for_each(0, inner.kept.count, [&](const auto& at) {
      to_[results_] = at[0];
      from_[results_++] = at[1];
    });
    inner.reduced.for_each(0, inner.reduced.count, [&](const auto& at) { term_[terms_++] = at[0]; });
  }

  void run() const {
    const int64_t blocks = ceil_div(n_, kTile), groups = outer_.kept.count * blocks;
    const int64_t work = results_ * terms_ * outer_.reduced.count * std::min(n_, kTile);
    const int64_t task = groups * work > kGrain ? kPiece : kGrain;
    parallel_for(groups, work < task ? task / work : 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        const int64_t first = group % blocks * kTile;
        const auto [to, from] = outer_.kept.at(group / blocks);
        reduce_tile(out_ + to + first * out_step_, x_ + from + first * x_step_, std::min(n_ - first, kTile));
      }
    });
  }

 private:
  void reduce_tile(Y* out, const X* x, int64_t rows) const {
    alignas(64) Bits tile[kWindow * kTile];
    alignas(64) Acc acc[kWindow * kTile];
    if (rows < kTile) std::fill_n(tile, window_ * kTile, Bits{});
    std::fill_n(acc, results_ * kTile, F::identity);
    outer_.reduced.for_each(0, outer_.reduced.count, [&](const auto& at) {
      transpose_window(rows, reinterpret_cast<const Bits*>(x + at[0]), tile);
      for (int64_t i = 0; i < results_; ++i) {
        const Bits* line = tile + from_[i] * kTile;
        for (int64_t j = 0; j < terms_; ++j) fold_each<F>(acc + i * kTile, line + term_[j] * kTile, kTile, 1);
      }
    });
    for (int64_t i = 0; i < results_; ++i) store(acc + i * kTile, rows, out + to_[i]);
  }

  void store(const Acc* acc, int64_t rows, Y* out) const {
    if (out_step_ == 1) {
#pragma omp simd
      for (int64_t r = 0; r < rows; ++r) out[r] = static_cast<Y>(acc[r]);
    } else {
      for (int64_t r = 0; r < rows; ++r) out[r * out_step_] = static_cast<Y>(acc[r]);
    }
  }

  /// Blocks of it may read on to the end of all rows, and so write more columns than a window has.
  void transpose_window(int64_t rows, const Bits* x, Bits* tile) const {
    using transposition::kBlock;
    const int64_t end = (rows - 1) * x_step_ + window_;
    for (int64_t r = 0; r < rows; r += kBlock) {
      for (int64_t c = 0; c < window_; c += kBlock) {
        if (r + kBlock <= rows && (r + kBlock - 1) * x_step_ + c + kBlock <= end) {
          transposition::transpose_block<Bits>({x + r * x_step_ + c, x_step_}, 1, {tile + c * kTile + r, kTile});
          continue;
        }
        for (int64_t i = r; i < rows && i < r + kBlock; ++i) {
          for (int64_t j = c; j < window_ && j < c + kBlock; ++j) tile[j * kTile + i] = x[i * x_step_ + j];
        }
      }
    }
  }

  Y* out_;
  const X* x_;
  int64_t n_, out_step_, x_step_;  ///< of the dim that is tiled
  int64_t window_;
  Dims outer_;
  int64_t results_ = 0, to_[kWindow], from_[kWindow];  ///< of a window: where they go in out, and come from in x
  int64_t terms_ = 0, term_[kWindow];                  ///< of a result: where they are, seen from the first
};

/// Not float64 squares: which of them are fused with their addition, and so their sum, is the compiler's choice.
template <class F>
constexpr bool kTiled = !std::is_same_v<F, SumSquares<double>>;

template <class F, class Y, class X>
void reduce_with(const View& out, const View& x) {
  if (numel(x) > 0) {
    const CollapsedDims<2> nest = in_order_of_memory(out, x);
    const Reduction<F, Y, X> reduction(data<Y>(out), data<X>(x), nest);
    if constexpr (kTiled<F>) {
      const CollapsedDims<2> together = with_rows_together(nest);
      const Tiling tiling(together, F::kInOrder ? kLanes : kWindow);
      if (reduction.is_whole() && tiling.dim > 0) {
        return TiledReduction<F, Y, X>(data<Y>(out), data<X>(x), together, tiling).run();
      }
    }
    return reduction.run();
  }
  for_each_row<1>({out}, [&](int64_t n, const auto& at, const auto& step) {
    for (int64_t i = 0; i < n; ++i) data<Y>(out)[at[0] + i * step[0]] = static_cast<Y>(F::identity);
  });
}

void reduce(Reduce op, View out, View x) {
  switch (op) {
    case Reduce::sum:
      return dispatch_any(x.dtype, [&]<class T>(T) {
        reduce_with<Sum<T>, std::conditional_t<std::is_floating_point_v<T>, T, int64_t>, T>(out, x);
      });
    case Reduce::sum_squares:
      return dispatch_floating(x.dtype, [&]<class T>(T) { reduce_with<SumSquares<T>, double, T>(out, x); });
    case Reduce::max: return dispatch_number(x.dtype, [&]<class T>(T) { reduce_with<Max<T>, T, T>(out, x); });
    case Reduce::min: return dispatch_number(x.dtype, [&]<class T>(T) { reduce_with<Min<T>, T, T>(out, x); });
    case Reduce::any: return dispatch_any(x.dtype, [&]<class T>(T) { reduce_with<Any<T>, bool, T>(out, x); });
    case Reduce::all: return dispatch_any(x.dtype, [&]<class T>(T) { reduce_with<All<T>, bool, T>(out, x); });
  }
}

/// Each to the bits of the root of its sum of squares: from the same parts, in the same order.
void norms(View out, Views x) {
  const auto numel_of = [&](int64_t i) { return numel(x.data[i]); };
  int64_t parts = 0;
  for (int64_t i = 0; i < x.count; ++i) parts += ceil_div(numel_of(i), kGrain);
  const Scratch<double> partial(parts);
  for_each_piece(x.count, kGrain, numel_of, [&](Elements part, int64_t number) {
    dispatch_floating(x.data[part.tensor].dtype, [&]<class T>(T) {
      const T* from = data<T>(x.data[part.tensor]) + part.begin;
      partial[number] = fold_row<SumSquares<T>>(0, from, part.end - part.begin, 1);
    });
  });
  const double* next = partial.data();
  for (int64_t i = 0; i < x.count; ++i) {
    double sum = 0;
    for (int64_t part = 0; part < ceil_div(numel_of(i), kGrain); ++part) sum += *next++;
    data<double>(out)[i] = std::sqrt(sum);
  }
}

// ---- Along a dim ----

/// A NaN beats all but another.
template <class T>
bool beats(ArgReduce op, T challenger, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(challenger) || std::isnan(best)) return !std::isnan(best);
  }
  return op == ArgReduce::max ? challenger > best : challenger < best;
}

void arg_reduce(ArgReduce op, View out, View x, int dim) {
  const int64_t n = x.shape[dim], step = x.strides[dim];
  dispatch_number(x.dtype, [&]<class T>(T) {
    for_each_line<2>({out, x}, dim, n, [&](const auto& at) {
      const T* line = data<T>(x) + at[1];
      T best = line[0];
      int64_t index = 0;
      for (int64_t i = 1; i < n; ++i) {
        if (!beats(op, line[i * step], best)) continue;
        best = line[i * step];
        index = i;
      }
      data<int64_t>(out)[at[0]] = index;
    });
  });
}

void cumsum(View out, View x, int dim, bool reverse) {
  const int64_t n = x.shape[dim], out_step = out.strides[dim], x_step = x.strides[dim];
  dispatch_any(x.dtype, [&]<class T>(T) {
    using Y = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    for_each_line<2>({out, x}, dim, n, [&](const auto& at) {
      typename Sum<T>::Acc total = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = reverse ? n - 1 - i : i;
        total += Sum<T>::load(data<T>(x)[at[1] + place * x_step]);
        data<Y>(out)[at[0] + place * out_step] = static_cast<Y>(total);
      }
    });
  });
}

/// y[i] = f(x[i])
template <class T, class F>
void map_line(T* y, const T* x, int64_t n, int64_t step, F f) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i * step]);
  }
}

void softmax(View out, View x, bool log) {
  const int dim = x.rank - 1;
  const int64_t n = x.shape[dim], step = x.strides[dim];
  constexpr int64_t kCost = 8;  // of one element, in additions
  dispatch_floating(x.dtype, [&]<class T>(T) {
    for_each_line<2>({out, x}, dim, kCost * n, [&](const auto& at) {
      T* y = data<T>(out) + at[0];
      const T* line = data<T>(x) + at[1];
      const T largest = fold_row<Max<T>>(Max<T>::identity, line, n, step);
      if (largest == Max<T>::identity) {
        for (int64_t i = 0; i < n; ++i) y[i] = log ? largest : T{0};
        return;
      }
      map_line(y, line, n, step, [=](T value) { return vec::exp(value - largest); });
      const double total = fold_row<Sum<T>>(0.0, y, n, 1);
      if (log) {
        const T log_total = static_cast<T>(std::log(total));
        map_line(y, line, n, step, [=](T value) { return (value - largest) - log_total; });
      } else {
        const T scale = static_cast<T>(1 / total);
        map_line(y, y, n, 1, [=](T value) { return value * scale; });
      }
    });
  });
}

}  // namespace

void fill_reduce(Backend& table) {
  table.reduce = reduce;
  table.norms = norms;
  table.arg_reduce = arg_reduce;
  table.cumsum = cumsum;
  table.softmax = softmax;
}

}  // namespace linnet::cpu::LINNET_ISA
