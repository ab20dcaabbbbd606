#pragma once

#include <algorithm>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/strided_index.h>
#include <linnet/ops/cpu/device/transpose.h>

namespace linnet::cpu::LINNET_ISA {

/// Dims begin … end − 1 except `without`, separated into those that out keeps and those that it reduces.
struct Dims {
  StridedIndex<2> kept;     ///< offsets in out and x
  StridedIndex<1> reduced;  ///< offsets in x

  Dims(const CollapsedDims<2>& dims, int begin, int end, int without = -1) {
    for (int d = begin; d < end; ++d) {
      if (d == without) continue;
      if (dims.stride[d][0] == 0) {
        reduced.add(dims.size[d], {dims.stride[d][1]});
      } else {
        kept.add(dims.size[d], dims.stride[d]);
      }
    }
  }
};

constexpr int64_t kTile = 64;     ///< results of a tile, side by side
constexpr int64_t kWindow = 128;  ///< elements of x, from first to last, for each result of a tile

/// How to reduce by tiles: `dim` is the dim along which a tile's results lie side by side, or 0 if tiles do not
/// apply; dims 0 … inner − 1 are the window.
struct Tiling {
  int dim = 0, inner = 0;
  int64_t window = 1;

  /// Tiles apply to rows of fewer than `least` elements, and to columns too few to fill vectors.
  Tiling(const CollapsedDims<2>& dims, int64_t least) {
    constexpr int64_t kColumns = 32;
    if (dims.size[0] >= (dims.stride[0][0] == 0 ? least : kColumns)) return;
    const auto results = [&](int d) { return dims.stride[d][0] == 0 ? 0 : std::min(dims.size[d], kTile); };
    for (int d = 1; d < dims.rank; ++d) {
      if (results(d) >= transposition::kTileSide && (dim == 0 || results(d) > results(dim))) dim = d;
    }
    for (int64_t elements = 1; inner < dim; ++inner) {
      const int64_t further = window + (dims.size[inner] - 1) * dims.stride[inner][1];
      if (further > kWindow || elements * dims.size[inner] > kWindow) break;
      window = further;
      elements *= dims.size[inner];
    }
  }
};

/// Splits dim 1, if its size allows it, so that 8 very short rows are an inner dim of their own: windows then fill
/// tiles of 8 × 8.
inline CollapsedDims<2> with_rows_together(CollapsedDims<2> dims) {
  constexpr int64_t kRows = transposition::kTileSide;
  if (dims.rank < 2 || dims.size[0] >= kRows || dims.stride[1][0] == 0 || dims.size[1] % kRows != 0) return dims;
  for (int d = dims.rank++; d > 1; --d) {
    dims.size[d] = dims.size[d - 1];
    dims.stride[d] = dims.stride[d - 1];
  }
  dims.size[1] = kRows;
  dims.size[2] /= kRows;
  for (int64_t& stride : dims.stride[2]) stride *= kRows;
  return dims;
}

/// Reduces short rows with F, each in memory order, by transposing tiles of x: rows then lie side by side in vectors.
template <class F, class Y, class X>
class TiledReduction {
  using Acc = typename F::Acc;
  using Bits = std::conditional_t<std::is_same_v<X, bool>, uint8_t, X>;

 public:
  TiledReduction(Y* out, const X* x, const CollapsedDims<2>& dims, const Tiling& tiling)
      : out_(out),
        x_(x),
        n_(dims.size[tiling.dim]),
        out_step_(dims.stride[tiling.dim][0]),
        x_step_(dims.stride[tiling.dim][1]),
        window_(tiling.window),
        outer_(dims, tiling.inner, dims.rank, tiling.dim) {
    const Dims inner(dims, 0, tiling.inner);
    inner.kept.for_each(0, inner.kept.count, [&](const auto& at) {
      to_[results_] = at[0];
      from_[results_++] = at[1];
    });
    inner.reduced.for_each(0, inner.reduced.count, [&](const auto& at) { term_[terms_++] = at[0]; });
  }

  void run() const {
    const int64_t ranges = ceil_div(n_, kTile), groups = outer_.kept.count * ranges;
    const int64_t work = results_ * terms_ * outer_.reduced.count * std::min(n_, kTile);
    const int64_t grain = groups * work > kGrain ? kFineGrain : kGrain;
    parallel_for(groups, work < grain ? grain / work : 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) {
        const int64_t first = group % ranges * kTile;
        const auto [to, from] = outer_.kept.at(group / ranges);
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

  /// Tiles of 8 × 8 may read beyond a row's window, up to the end of all rows, and so write more columns than it has.
  void transpose_window(int64_t rows, const Bits* x, Bits* tile) const {
    using transposition::kTileSide;
    const int64_t end = (rows - 1) * x_step_ + window_;
    for (int64_t r = 0; r < rows; r += kTileSide) {
      for (int64_t c = 0; c < window_; c += kTileSide) {
        if (r + kTileSide <= rows && (r + kTileSide - 1) * x_step_ + c + kTileSide <= end) {
          transposition::transpose_tile<Bits>({x + r * x_step_ + c, x_step_}, 1, {tile + c * kTile + r, kTile});
          continue;
        }
        for (int64_t i = r; i < rows && i < r + kTileSide; ++i) {
          for (int64_t j = c; j < window_ && j < c + kTileSide; ++j) tile[j * kTile + i] = x[i * x_step_ + j];
        }
      }
    }
  }

  Y* out_;
  const X* x_;
  int64_t n_, out_step_, x_step_;  ///< size and strides of the dim that is tiled
  int64_t window_;
  Dims outer_;
  int64_t results_ = 0, to_[kWindow], from_[kWindow];  ///< results of a window, their offsets in out and in x
  int64_t terms_ = 0, term_[kWindow];                  ///< terms of a result, their offsets from the first
};

}  // namespace linnet::cpu::LINNET_ISA
