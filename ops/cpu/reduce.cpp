#include <cmath>
#include <limits>
#include <type_traits>

#include <linnet/core/kernel_names.h>
#include <linnet/ops/cpu/scratch.h>
#include <linnet/ops/cpu/vector_math.h>
#include <linnet/ops/cpu/walk.h>

/// Reductions, and what goes along a dim like one: arg_reduce, cumsum and softmax. Memory bounds them where lines are
/// long: each is read once, in the order in which it lies, many sums side by side so that none waits for its own last
/// addition. Softmax is bound by its exponentials; what it goes over again it finds in the cache.

namespace linnet::cpu::LINNET_ISA {
namespace {

// ---- What is folded: `load` turns an element into an accumulator, `fold` joins two. ----

/// Floating sums are accumulated in double, so that a float32 sum of any length is good to its last bits.
template <class X>
struct Sum {
  using Acc = std::conditional_t<std::is_floating_point_v<X>, double, int64_t>;
  static constexpr Acc identity = 0;
  static Acc load(X x) { return static_cast<Acc>(x); }
  static Acc fold(Acc a, Acc b) { return a + b; }
};

template <class X>
struct SumSquares : Sum<X> {
  static double load(X x) { return static_cast<double>(x) * static_cast<double>(x); }
};

template <class X>
struct Max {
  using Acc = X;
  static constexpr X identity =
      std::is_floating_point_v<X> ? -std::numeric_limits<X>::infinity() : std::numeric_limits<X>::lowest();
  static X load(X x) { return x; }
  static X fold(X a, X b) { return b > a || b != b ? b : a; }  // a NaN a stays, as no b is greater
};

template <class X>
struct Min {
  using Acc = X;
  static constexpr X identity =
      std::is_floating_point_v<X> ? std::numeric_limits<X>::infinity() : std::numeric_limits<X>::max();
  static X load(X x) { return x; }
  static X fold(X a, X b) { return b < a || b != b ? b : a; }
};

template <class X>
struct Any {
  using Acc = uint8_t;
  static constexpr Acc identity = 0;
  static Acc load(X x) { return x != X{}; }
  static Acc fold(Acc a, Acc b) { return a | b; }
};

template <class X>
struct All {
  using Acc = uint8_t;
  static constexpr Acc identity = 1;
  static Acc load(X x) { return x != X{}; }
  static Acc fold(Acc a, Acc b) { return a & b; }
};

// ---- How: x is walked in the order of its memory, whatever the order of its dims. ----

constexpr int64_t kLanes = 32;     ///< partial results of a row of one result
constexpr int64_t kColumns = 256;  ///< the most results that are made side by side

/// Loops are along the row, one dim of x: the innermost of its memory, or another that out keeps. The other dims are
/// walked, apart by whether out keeps them.
struct Plan {
  int64_t n = 1, x_step = 1;  ///< of the row
  int64_t out_step = 0;       ///< 0 when it is reduced
  Walk<2> kept;               ///< offsets in out and x
  Walk<1> reduced;            ///< offsets in x

  Plan(const View& out, const View& x) {
    int64_t shape[Nest<2>::kMaxRank], out_strides[Nest<2>::kMaxRank], x_strides[Nest<2>::kMaxRank];
    int rank = 0;
    for (int d = 0; d < x.rank; ++d) {
      if (x.shape[d] == 1) continue;
      // By falling stride; a dim that repeats x (stride 0) outermost.
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
    const Nest<2> nest(
        {View{out.data, out.dtype, rank, shape, out_strides}, View{x.data, x.dtype, rank, shape, x_strides}});
    const int row = row_of(nest);
    n = nest.size[row];
    out_step = n == 1 ? 0 : nest.stride[row][0];
    x_step = nest.stride[row][1];
    for (int d = 0; d < nest.rank; ++d) {
      if (d == row) continue;
      if (nest.stride[d][0] == 0) {
        reduced.add(nest.size[d], {nest.stride[d][1]});
      } else {
        kept.add(nest.size[d], nest.stride[d]);
      }
    }
  }

 private:
  /// The innermost dim where it is long enough for lanes, or where a result is made of many elements. Otherwise what
  /// it takes to begin a row would cost more than the row, and a longer dim that out keeps makes many results side by
  /// side: the innermost of at least kEnough, or else the longest. A result's elements are joined in the same order
  /// either way.
  static int row_of(const Nest<2>& nest) {
    constexpr int64_t kEnough = 8;
    int64_t elements = 1;  // of a result
    for (int d = 0; d < nest.rank; ++d) {
      if (nest.stride[d][0] == 0) elements *= nest.size[d];
    }
    if (nest.size[0] >= kLanes || elements * kColumns > kGrain) return 0;
    int best = nest.stride[0][0] != 0 ? 0 : -1;
    for (int d = 0; d < nest.rank; ++d) {
      if (nest.stride[d][0] == 0) continue;
      if (best < 0 || nest.size[d] > nest.size[best]) best = d;
      if (nest.size[best] >= kEnough) break;
    }
    return best < 0 ? 0 : best;
  }
};

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
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = F::fold(lane[l], F::load(x[l]));
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t l = 0; l < half; ++l) lane[l] = F::fold(lane[l], lane[l + half]);
    }
    acc = F::fold(acc, lane[0]);
  }
  for (int64_t i = 0; i < n; ++i) acc = F::fold(acc, F::load(x[i * step]));
  return acc;
}

/// Reduces x with F. A task is a part of what some results are made of: a result from much input is made of
/// several parts, which are then joined in order; many results from little input each share a task.
template <class F, class Y, class X>
class Reduction {
  template <int64_t kStep>
  using Constant = std::integral_constant<int64_t, kStep>;

  using Acc = typename F::Acc;

 public:
  Reduction(const View& out, const View& x) : out_(data<Y>(out)), x_(data<X>(x)), plan_(out, x) {
    const bool columns = plan_.out_step != 0;
    width_ = columns ? (plan_.n < kColumns ? plan_.n : kColumns) : 1;
    blocks_ = columns ? ceil_div(plan_.n, width_) : 1;
    units_ = columns ? plan_.reduced.count : plan_.reduced.count * plan_.n;
    part_ = kGrain / width_;
    parts_ = ceil_div(units_, part_);
  }

  void run() {
    const int64_t groups = plan_.kept.count * blocks_;
    if (parts_ == 1) {
      const int64_t work = units_ * width_;
      parallel_for(groups, work < kGrain ? kGrain / work : 1, [&](int64_t begin, int64_t end) {
        Acc acc[kColumns];
        int64_t group = begin;
        plan_.kept.for_each(begin / blocks_, ceil_div(end, blocks_), [&](const Offsets& at) {
          do {
            fold(group, at, 0, units_, acc);
            store(group, at, acc);
          } while (++group < end && group % blocks_ != 0);
        });
      });
      return;
    }
    const Scratch<Acc> partial(groups * parts_ * width_);
    parallel_tasks(groups * parts_, [&](int64_t task) {
      const int64_t begin = task % parts_ * part_;
      const int64_t end = begin + part_ < units_ ? begin + part_ : units_, group = task / parts_;
      fold(group, plan_.kept.at(group / blocks_), begin, end, partial.data() + task * width_);
    });
    for (int64_t group = 0; group < groups; ++group) {
      Acc* acc = partial.data() + group * parts_ * width_;
      for (int64_t part = 1; part < parts_; ++part) {
        for (int64_t c = 0; c < width(group); ++c) acc[c] = F::fold(acc[c], acc[part * width_ + c]);
      }
      store(group, plan_.kept.at(group / blocks_), acc);
    }
  }

 private:
  using Offsets = std::array<int64_t, 2>;  ///< in out and x

  /// A group is one result, or a block of neighbours that are reduced side by side.
  int64_t width(int64_t group) const {
    const int64_t rest = plan_.n - group % blocks_ * width_;
    return rest < width_ ? rest : width_;
  }

  void fold(int64_t group, const Offsets& at, int64_t begin, int64_t end, Acc* acc) const {
    const X* x = x_ + at[1] + group % blocks_ * width_ * plan_.x_step;
    if (plan_.out_step == 0) return fold_rows(x, begin, end, acc);
    switch (plan_.x_step) {  // steps that are constants vectorise
      case 1: return fold_columns(x, width(group), Constant<1>{}, begin, end, acc);
      case 2: return fold_columns(x, width(group), Constant<2>{}, begin, end, acc);
      case 3: return fold_columns(x, width(group), Constant<3>{}, begin, end, acc);
      case 4: return fold_columns(x, width(group), Constant<4>{}, begin, end, acc);
      default: return fold_columns(x, width(group), plan_.x_step, begin, end, acc);
    }
  }

  /// Elements begin … end − 1 of what makes one result, which lies in rows of n.
  void fold_rows(const X* x, int64_t begin, int64_t end, Acc* acc) const {
    *acc = F::identity;
    int64_t i = begin % plan_.n;
    plan_.reduced.for_each(begin / plan_.n, ceil_div(end, plan_.n), [&](const auto& at) {
      const int64_t count = plan_.n - i < end - begin ? plan_.n - i : end - begin;
      *acc = fold_row<F>(*acc, x + at[0] + i * plan_.x_step, count, plan_.x_step);
      begin += count;
      i = 0;
    });
  }

  /// Rows begin … end − 1 of what makes `width` results, side by side.
  template <class Step>
  void fold_columns(const X* x, int64_t width, Step step, int64_t begin, int64_t end, Acc* acc) const {
    for (int64_t c = 0; c < width; ++c) acc[c] = F::identity;
    plan_.reduced.for_each(begin, end, [&](const auto& at) {
      const X* from = x + at[0];
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) acc[c] = F::fold(acc[c], F::load(from[c * step]));
    });
  }

  void store(int64_t group, const Offsets& at, const Acc* acc) const {
    Y* out = out_ + at[0] + group % blocks_ * width_ * plan_.out_step;
    for (int64_t c = 0; c < width(group); ++c) out[c * plan_.out_step] = static_cast<Y>(acc[c]);
  }

  Y* out_;
  const X* x_;
  Plan plan_;
  int64_t width_;   ///< results per group
  int64_t blocks_;  ///< groups that the innermost dim is cut into
  int64_t units_;   ///< elements (of a row) or rows (of columns) that a group reduces
  int64_t part_;    ///< units per task
  int64_t parts_;   ///< tasks per group
};

template <class F, class Y, class X>
void reduce_with(const View& out, const View& x) {
  if (numel(x) > 0) return Reduction<F, Y, X>(out, x).run();
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
