#pragma once

#include <algorithm>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/strided_index.h>
#include <linnet/ops/cpu/device/transpose.h>

namespace linnet::cpu::LINNET_ISA {

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
    const int64_t task = groups * work > kGrain ? kFineGrain : kGrain;
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
        for (int64_t j = 0; j < terms_; ++j) combine_each<F>(acc + i * kTile, line + term_[j] * kTile, kTile, 1);
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

}  // namespace linnet::cpu::LINNET_ISA
