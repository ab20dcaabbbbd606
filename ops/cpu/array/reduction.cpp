#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/cpu/array/tiled_reduction.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Reductions. Memory bounds them where rows are long: each is read once, in the order in which it lies, many sums
/// side by side so that none waits for its own last addition.

namespace linnet::cpu::LINNET_ISA {
namespace {

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

  /// Whether a result is made of one part: it is then reduced in the order of memory.
  bool is_whole() const { return parts_ == 1; }

  void run() const {
    const int64_t groups = outer_.kept.count * blocks_;
    if (parts_ == 1) {
      const int64_t work = units_ * width_;
      parallel_for(groups, work < kGrain ? kGrain / work : 1, [&](int64_t begin, int64_t end) {
        Acc acc[kColumns];
        for (int64_t group = begin; group < end; ++group) {
          reduce(group, 0, units_, acc);
          store(group, acc);
        }
      });
      return;
    }
    const Scratch<Acc> partial(groups * parts_ * width_);
    parallel_tasks(groups * parts_, [&](int64_t task) {
      const int64_t begin = task % parts_ * part_;
      reduce(task / parts_, begin, begin + part_ < units_ ? begin + part_ : units_, partial.data() + task * width_);
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

  void reduce(int64_t group, int64_t begin, int64_t end, Acc* acc) const {
    const X* x = x_ + outer_.kept.at(group / blocks_)[1] + group % blocks_ * width_ * x_step_;
    if (out_step_ == 0) {
      reduce_rows(x, begin, end, acc);
    } else {
      reduce_columns(x, width(group), begin, end, acc);
    }
  }

  /// Elements begin … end − 1 of what makes one result, which lies in rows of n.
  void reduce_rows(const X* x, int64_t begin, int64_t end, Acc* acc) const {
    *acc = F::identity;
    int64_t i = begin % n_;
    outer_.reduced.for_each(begin / n_, ceil_div(end, n_), [&](const auto& at) {
      const int64_t count = n_ - i < end - begin ? n_ - i : end - begin;
      *acc = reduce_row<F>(*acc, x + at[0] + i * x_step_, count, x_step_);
      begin += count;
      i = 0;
    });
  }

  /// Rows begin … end − 1 of what makes `width` results, side by side.
  void reduce_columns(const X* x, int64_t width, int64_t begin, int64_t end, Acc* acc) const {
    for (int64_t c = 0; c < width; ++c) acc[c] = F::identity;
    outer_.reduced.for_each(begin, end, [&](const auto& at) { combine_each<F>(acc, x + at[0], width, x_step_); });
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

}  // namespace

void fill_reduction(Backend& table) { table.reduce = reduce; }

}  // namespace linnet::cpu::LINNET_ISA
