#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/cpu/array/tiled_reduction.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Reductions. Memory-bound where rows are long: x is read once, in memory order, with many accumulators side by side
/// so that no addition waits for the one before.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// The dims of x by falling stride, dims of stride 0 outermost; out has stride 0 in the dims that are reduced.
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
  CollapsedDims<2> dims(
      {View{out.data, out.dtype, rank, shape, out_strides}, View{x.data, x.dtype, rank, shape, x_strides}});
  if (dims.size[0] == 1) dims.stride[0][0] = 0;
  return dims;
}

/// Reduces x with F. A group is one result, or up to kColumns neighbouring results that are reduced side by side. The
/// terms of a group are split, by size alone, if there are many; the splits' results are then combined in order.
/// Groups of few terms share a task.
template <class F, class Y, class X>
class Reduction {
  using Acc = typename F::Acc;
  static constexpr int64_t kColumns = 256;

 public:
  Reduction(Y* out, const X* x, const CollapsedDims<2>& dims)
      : out_(out),
        x_(x),
        n_(dims.size[0]),
        out_step_(dims.stride[0][0]),
        x_step_(dims.stride[0][1]),
        outer_(dims, 1, dims.rank) {
    const bool columns = out_step_ != 0;
    width_ = columns ? (n_ < kColumns ? n_ : kColumns) : 1;
    column_ranges_ = columns ? ceil_div(n_, width_) : 1;
    terms_ = columns ? outer_.reduced.count : outer_.reduced.count * n_;
    split_size_ = kGrain / width_;
    splits_ = ceil_div(terms_, split_size_);
  }

  /// Whether the terms of a result are not split: they are then reduced in memory order.
  bool is_whole() const { return splits_ == 1; }

  void run() const {
    const int64_t groups = outer_.kept.count * column_ranges_;
    if (splits_ == 1) {
      const int64_t work = terms_ * width_;
      parallel_for(groups, work < kGrain ? kGrain / work : 1, [&](int64_t begin, int64_t end) {
        Acc acc[kColumns];
        for (int64_t group = begin; group < end; ++group) {
          reduce(group, 0, terms_, acc);
          store(group, acc);
        }
      });
      return;
    }
    const Scratch<Acc> partial(groups * splits_ * width_);
    parallel_tasks(groups * splits_, [&](int64_t task) {
      const int64_t begin = task % splits_ * split_size_;
      reduce(task / splits_, begin, begin + split_size_ < terms_ ? begin + split_size_ : terms_,
             partial.data() + task * width_);
    });
    for (int64_t group = 0; group < groups; ++group) {
      Acc* acc = partial.data() + group * splits_ * width_;
      for (int64_t split = 1; split < splits_; ++split) {
        for (int64_t c = 0; c < width(group); ++c) acc[c] = F::combine(acc[c], acc[split * width_ + c]);
      }
      store(group, acc);
    }
  }

 private:
  /// The number of results of a group.
  int64_t width(int64_t group) const {
    const int64_t rest = n_ - group % column_ranges_ * width_;
    return rest < width_ ? rest : width_;
  }

  void reduce(int64_t group, int64_t begin, int64_t end, Acc* acc) const {
    const X* x = x_ + outer_.kept.at(group / column_ranges_)[1] + group % column_ranges_ * width_ * x_step_;
    if (out_step_ == 0) {
      reduce_rows(x, begin, end, acc);
    } else {
      reduce_columns(x, width(group), begin, end, acc);
    }
  }

  /// Reduces terms begin … end − 1 of one result; terms lie in rows of n.
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

  /// Reduces terms begin … end − 1, rows of `width` elements, one for each result.
  void reduce_columns(const X* x, int64_t width, int64_t begin, int64_t end, Acc* acc) const {
    for (int64_t c = 0; c < width; ++c) acc[c] = F::identity;
    outer_.reduced.for_each(begin, end, [&](const auto& at) { combine_each<F>(acc, x + at[0], width, x_step_); });
  }

  void store(int64_t group, const Acc* acc) const {
    Y* out = out_ + outer_.kept.at(group / column_ranges_)[0] + group % column_ranges_ * width_ * out_step_;
    for (int64_t c = 0; c < width(group); ++c) out[c * out_step_] = static_cast<Y>(acc[c]);
  }

  Y* out_;
  const X* x_;
  int64_t n_, out_step_, x_step_;  ///< of the innermost dim; out_step is 0 when it is reduced
  Dims outer_;
  int64_t width_;          ///< results per group
  int64_t column_ranges_;  ///< groups along the innermost dim
  int64_t terms_;          ///< elements (of a row) or rows (of columns) that a group reduces
  int64_t split_size_;     ///< terms of a split
  int64_t splits_;         ///< splits of a group
};

/// Whether tiles may be used. Not for squares in float64: the compiler chooses which squares it fuses with their
/// addition, so the tiled and the plain loop may round differently.
template <class F>
constexpr bool kTiled = !std::is_same_v<F, SumSquares<double>>;

template <class F, class Y, class X>
void reduce_with(const View& out, const View& x) {
  if (numel(x) > 0) {
    const CollapsedDims<2> dims = in_order_of_memory(out, x);
    const Reduction<F, Y, X> reduction(data<Y>(out), data<X>(x), dims);
    if constexpr (kTiled<F>) {
      const CollapsedDims<2> together = with_rows_together(dims);
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
    case Reduce::prod:
      return dispatch_any(x.dtype, [&]<class T>(T) {
        reduce_with<Prod<T>, std::conditional_t<std::is_floating_point_v<T>, T, int64_t>, T>(out, x);
      });
    case Reduce::max: return dispatch_number(x.dtype, [&]<class T>(T) { reduce_with<Max<T>, T, T>(out, x); });
    case Reduce::min: return dispatch_number(x.dtype, [&]<class T>(T) { reduce_with<Min<T>, T, T>(out, x); });
    case Reduce::any: return dispatch_any(x.dtype, [&]<class T>(T) { reduce_with<Any<T>, bool, T>(out, x); });
    case Reduce::all: return dispatch_any(x.dtype, [&]<class T>(T) { reduce_with<All<T>, bool, T>(out, x); });
  }
}

}  // namespace

void fill_reduction(Backend& table) { table.reduce = reduce; }

}  // namespace linnet::cpu::LINNET_ISA
