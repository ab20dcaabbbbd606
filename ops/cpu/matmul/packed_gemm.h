#pragma once

#include <algorithm>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/transpose.h>

/// Matrix products of any size, from copies of their factors in the order in which they are read (Goto & van de Geijn
/// 2008, "Anatomy of High-Performance Matrix Multiplication").
///
/// The right factor is packed in panels, [depth, kWidth] row by row, as wide as a tile of the result that stays in
/// registers. A tile has three vectors to a row and, with AVX-512, 8 rows, so that there are 11 loads for 24
/// multiplications. BLAS packs within a call; each of our tasks would be a call, and pack the panels for itself. Here
/// tasks share panels, where these are small enough to stay in a shared cache.

namespace linnet::cpu::LINNET_ISA {

namespace packed {

constexpr int kVectors = 3;
template <class T>
constexpr int64_t kWidth = kVectors * product::kLanes<T>;

/// kPanelDepth: a long sum is split so that a panel stays in the L1 cache while the rows of the left factor pass.
/// kRangeColumns: the result is read and written once for each split, in ranges of columns that stay in the L2 cache.
constexpr int64_t kPanelDepth = 128, kRangeColumns = 1008;
/// For a result of at least kWide columns the left factor is packed too, kPanelsCopied splits of the sum at a time,
/// in row tiles as high as a tile of the result. It is read once for each panel, and unpacked it would lie in as many
/// pages as it has rows. A transposed left factor, as in the gradient of a weight, is packed if its columns are at
/// least kFarApart bytes apart: its cache lines would share cache sets, and no prefetcher predicts them (a gradient
/// 512×768·768×128 is 1.2 to 1.5 times as fast).
constexpr int64_t kWide = 256, kFarApart = 512, kPanelsCopied = 8;

/// Copies `count` ≤ kMost elements, faster for count = kMost.
template <int64_t kMost, class T>
void copy_up_to(const T* from, int64_t count, T* to) {
  if (count == kMost) {
    std::copy_n(from, kMost, to);
  } else {
    std::copy_n(from, count, to);
  }
}

/// to[k · kWidth + c] = b(k, c), and 0 from `width` on.
template <class T>
void pack_panel(Matrix<T> b, int64_t depth, int64_t width, T* to) {
  if (b.row == 1) {
    constexpr int64_t kStep = 32;  // rows of the panel that are filled together, so that they stay in the cache
    for (int64_t k = 0; k < depth; k += kStep) {
      transpose<T>(width, std::min(kStep, depth - k), {b.data + k, b.column}, {to + k * kWidth<T>, kWidth<T>});
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) copy_up_to<kWidth<T>>(b.data + k * b.row, width, to + k * kWidth<T>);
  }
  if (width == kWidth<T>) return;
  for (int64_t k = 0; k < depth; ++k) std::fill_n(to + k * kWidth<T> + width, kWidth<T> - width, T{0});
}

/// Packs the row tiles of a, one after the other: to[depth · row + k · height + r] = a(row + r, k).
template <class T>
void pack_row_tiles(Matrix<T> a, const product::EvenSplit& row_tiles, int64_t depth, T* to) {
  if (a.column == 1) {
    for (int64_t i = 0; i < row_tiles.count; ++i) {
      const int64_t row = row_tiles.begin(i), height = row_tiles.size(i);
      transpose<T>(height, depth, {a.data + row * a.row, a.row}, {to + depth * row, height});
    }
    return;
  }
  constexpr int64_t kStep =
      8;  // columns that are copied together: the row tiles are so far apart that they share cache sets
  for (int64_t first = 0; first < depth; first += kStep) {
    const int64_t last = std::min(first + kStep, depth);
    for (int64_t i = 0; i < row_tiles.count; ++i) {
      const int64_t row = row_tiles.begin(i), height = row_tiles.size(i);
      T* tile = to + depth * row;
      for (int64_t k = first; k < last; ++k) {
        copy_up_to<product::kRows>(a.data + row + k * a.column, height, tile + k * height);
      }
    }
  }
}

/// Prefetches a range of the next panel into the L2 cache while a tile's sum runs. Another core may have packed that
/// panel, and the first tile to use it would wait. A few lines every kInterval iterations, because more at a time
/// wait for each other.
struct PrefetchPanel {
  static constexpr int64_t kInterval = 16, kLine = 64;
  const char* at = nullptr;
  int64_t lines = 0;

  /// Range `i` of `count` of a panel of `depth` rows; nothing if the panel is null.
  template <class T>
  PrefetchPanel(const T* panel, int64_t depth, int64_t i, int64_t count) {
    if (panel == nullptr) return;
    const int64_t fetches = ceil_div(depth, kInterval);
    lines = ceil_div(depth * kWidth<T> * static_cast<int64_t>(sizeof(T)), kLine * fetches * count);
    at = reinterpret_cast<const char*>(panel) + i * fetches * lines * kLine;
  }

  void fetch() {
    for (const char* end = at + lines * kLine; at != end; at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// The left factor in row tiles, for sums that are split by `panel_depth`: packed, `copied_depth` of the sum at a
/// time, or in place.
template <class T>
class LeftFactor {
 public:
  LeftFactor(Matrix<T> a, int64_t rows, int64_t depth, int64_t panel_depth, bool copied)
      : a_(a),
        depth_(depth),
        panel_depth_(panel_depth),
        copied_depth_(copied ? std::min(depth, kPanelsCopied * panel_depth) : depth),
        row_tiles_(rows, product::kRows),
        rows_(rows),
        copy_(copied ? rows * copied_depth_ : 0) {}

  int64_t copied_depth() const { return copied_depth_; }
  const product::EvenSplit& row_tiles() const { return row_tiles_; }

  /// The length of the split of the sum from k on.
  int64_t length(int64_t k) const { return std::min(panel_depth_, depth_ - k); }

  /// Packs [first, end) of the sum, if the factor is packed.
  void load(int64_t first, int64_t end) {
    first_ = first;
    if (copy_.data() == nullptr) return;
    for (int64_t k = first; k < end; k += panel_depth_) {
      pack_row_tiles(a_.from(0, k), row_tiles_, length(k), copy_at(k));
    }
  }

  /// Row tile `i` of the split from k on.
  Matrix<T> tile(int64_t i, int64_t k) const {
    const int64_t row = row_tiles_.begin(i);
    if (copy_.data() == nullptr) return a_.from(row, k);
    return {copy_at(k) + row * length(k), 1, row_tiles_.size(i)};
  }

 private:
  T* copy_at(int64_t k) const { return copy_.data() + (k - first_) * rows_; }

  Matrix<T> a_;
  int64_t depth_, panel_depth_, copied_depth_, first_ = 0;
  product::EvenSplit row_tiles_;
  int64_t rows_;
  Scratch<T> copy_;
};

/// A tile of a product, `rows` ≤ product::kRows by `width` ≤ kWidth columns, with b a panel.
template <class T>
void multiply_tile(int64_t rows, int64_t width, int64_t depth, const product::TileOperands<T>& x,
                   PrefetchPanel prefetch) {
  constexpr int64_t kLanes = product::kLanes<T>;
  if (width == kWidth<T>) {
    product::multiply_rows<product::kRows, kVectors, kLanes>(rows, depth, x, prefetch);
  } else if (width % kLanes == 0) {
    tile_product<T>(rows, width, depth, x.a, x.b, x.base, x.c);
  } else {
    T whole[product::kRows * kWidth<T>];
    const Rows<T> sums{whole, kWidth<T>};
    tile_product<T>(rows, round_up(width, kLanes), depth, x.a, x.b, {nullptr, 0}, sums);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t l = 0; l < width; ++l) x.c[r][l] = sums[r][l] + (x.base.data != nullptr ? x.base[r][l] : T{0});
    }
  }
}

}  // namespace packed

/// The right factor of a product, [depth, width], in panels that tasks share. Packed in parallel.
template <class T>
class PackedPanels {
 public:
  PackedPanels(Matrix<T> b, int64_t depth, int64_t width)
      : depth_(depth), packed_(round_up(width, packed::kWidth<T>) * depth) {
    constexpr int64_t kWidth = packed::kWidth<T>;
    parallel_for(ceil_div(width, kWidth), std::max<int64_t>(1, kGrain / (2 * kWidth * depth)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin * kWidth; c < std::min(width, end * kWidth); c += kWidth) {
                     packed::pack_panel(b.from(0, c), depth, std::min(kWidth, width - c), packed_.data() + c * depth);
                   }
                 });
  }

  /// The panel of columns [c, c + kWidth) from row k on; c is a multiple of kWidth.
  const T* at(int64_t k, int64_t c) const { return packed_.data() + c * depth_ + k * packed::kWidth<T>; }

 private:
  int64_t depth_;
  Scratch<T> packed_;
};

/// c = a·b + base on the calling thread, for a [rows, depth] and b [depth, width], each with a unit stride in one
/// dim; no base where its data is null. `panel_at(k, column)` is the packed panel of b from there on, or null: then
/// it is packed here.
template <class T, class PanelAt>
void packed_gemm(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Matrix<T> b, PanelAt&& panel_at,
                 Rows<const T> base, Rows<T> c) {
  using namespace packed;
  const int64_t panel_depth = ceil_div(depth, ceil_div(depth, kPanelDepth));
  const Scratch<T> right(kWidth<T> * panel_depth);
  const bool far_apart = a.column * static_cast<int64_t>(sizeof(T)) >= kFarApart;
  LeftFactor<T> left(a, rows, depth, panel_depth, width >= kWide || far_apart);
  const product::EvenSplit& row_tiles = left.row_tiles();
  static_assert(kRangeColumns % kWidth<T> == 0);

  const auto add_panel = [&](int64_t k, int64_t column) {  // c += the split from k on, in the columns of one panel
    const int64_t length = left.length(k), columns = std::min(kWidth<T>, width - column);
    const T *panel = panel_at(k, column), *next = nullptr;
    if (panel == nullptr) {
      pack_panel(b.from(k, column), length, columns, right.data());
      panel = right.data();
    } else if (column + kWidth<T> < width) {
      next = panel_at(k, column + kWidth<T>);
    }
    const Rows<const T> from = k > 0 ? Rows<const T>(c) : base;
    for (int64_t i = 0; i < row_tiles.count; ++i) {
      const int64_t row = row_tiles.begin(i);
      multiply_tile<T>(
          row_tiles.size(i), columns, length,
          {left.tile(i, k), {panel, kWidth<T>}, product::base_at(from, row, column), {c[row] + column, c.stride}},
          PrefetchPanel(next, length, i, row_tiles.count));
    }
  };
  for (int64_t first = 0; first < depth; first += left.copied_depth()) {
    const int64_t end = std::min(depth, first + left.copied_depth());
    left.load(first, end);
    for (int64_t column_range = 0; column_range < width; column_range += kRangeColumns) {
      const int64_t last = std::min(width, column_range + kRangeColumns);
      for (int64_t k = first; k < end; k += panel_depth) {
        for (int64_t column = column_range; column < last; column += kWidth<T>) add_panel(k, column);
      }
    }
  }
}

}  // namespace linnet::cpu::LINNET_ISA
