#pragma once

#include <algorithm>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/transpose.h>

/// Matrix products of any size, from copies of their factors in the order in which they are read (Goto & van de Geijn
/// 2008, "Anatomy of High-Performance Matrix Multiplication").
///
/// The right factor lies in panels, one row of the sum after the other, as wide as a tile of the result that stays in
/// registers: three vectors and, with AVX-512, 8 rows, so that there are 11 loads for 24 multiplications. BLAS does
/// the same within a call; but each task of ours would be a call, and copy the panels for itself. Here tasks share
/// them, where all of them are small enough to be near.

namespace linnet::cpu::LINNET_ISA {

namespace packed {

constexpr int kVectors = 3;
template <class T>
constexpr int64_t kWidth = kVectors * product::kLanes<T>;

/// A long sum is cut into parts so short that a panel stays in the nearest cache while the rows pass by. The result
/// is read and written once more for each, in blocks of columns that stay in the next cache meanwhile.
constexpr int64_t kPanelDepth = 128, kBlockWidth = 1008;
/// For a wide result the left factor is copied too, some parts at a time, in bands as high as a tile: it is read once
/// for each panel, and would be from as many pages as it has rows. So is one that lies transposed, as in the gradient
/// of a weight, with so many bytes from column to column: a band would be read from lines so far apart that they
/// share cache sets, and that no prefetcher finds (a gradient 512×768·768×128 is 1.2 to 1.5 times as fast).
constexpr int64_t kWide = 256, kFarApart = 512, kPartsCopied = 8;

/// Copies `count` ≤ kMost elements, faster where they are as many.
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
    constexpr int64_t kStep = 32;  // rows of the panel that are filled together, so that they stay near
    for (int64_t k = 0; k < depth; k += kStep) {
      transpose<T>(width, std::min(kStep, depth - k), {b.data + k, b.column}, {to + k * kWidth<T>, kWidth<T>});
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) copy_up_to<kWidth<T>>(b.data + k * b.row, width, to + k * kWidth<T>);
  }
  if (width == kWidth<T>) return;
  for (int64_t k = 0; k < depth; ++k) std::fill_n(to + k * kWidth<T> + width, kWidth<T> - width, T{0});
}

/// The bands of a, one after the other: to[depth · row + k · height + r] = a(row + r, k).
template <class T>
void pack_bands(Matrix<T> a, const product::EvenSplit& bands, int64_t depth, T* to) {
  if (a.column == 1) {
    for (int64_t i = 0; i < bands.count; ++i) {
      const int64_t row = bands.begin(i), height = bands.size(i);
      transpose<T>(height, depth, {a.data + row * a.row, a.row}, {to + depth * row, height});
    }
    return;
  }
  constexpr int64_t kStep = 8;  // columns that are copied together: bands lie so far apart that they share cache sets
  for (int64_t first = 0; first < depth; first += kStep) {
    const int64_t last = std::min(first + kStep, depth);
    for (int64_t i = 0; i < bands.count; ++i) {
      const int64_t row = bands.begin(i), height = bands.size(i);
      T* band = to + depth * row;
      for (int64_t k = first; k < last; ++k) {
        copy_up_to<product::kRows>(a.data + row + k * a.column, height, band + k * height);
      }
    }
  }
}

/// A piece of the panel that comes next, for a tile to bring into the second nearest cache. Another core may have
/// written that panel, and the first tile that needs it would wait. Some lines in each kTurns turns of the sum, since
/// more at a time wait for each other.
struct PrefetchPanel {
  static constexpr int64_t kInterval = 16, kLine = 64;
  const char* at = nullptr;
  int64_t lines = 0;

  /// The piece `i` of `count` of a panel of `depth` rows, or nothing where it is null.
  template <class T>
  PrefetchPanel(const T* panel, int64_t depth, int64_t i, int64_t count) {
    if (panel == nullptr) return;
    const int64_t turns = ceil_div(depth, kInterval);
    lines = ceil_div(depth * kWidth<T> * static_cast<int64_t>(sizeof(T)), kLine * turns * count);
    at = reinterpret_cast<const char*>(panel) + i * turns * lines * kLine;
  }

  void fetch() {
    for (const char* end = at + lines * kLine; at != end; at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// The left factor in bands, for sums in parts of `part`: copied, a piece of the sum at a time, or as it lies.
template <class T>
class LeftFactor {
 public:
  LeftFactor(Matrix<T> a, int64_t rows, int64_t depth, int64_t part, bool copied)
      : a_(a),
        depth_(depth),
        part_(part),
        piece_(copied ? std::min(depth, kPartsCopied * part) : depth),
        bands_(rows, product::kRows),
        rows_(rows),
        copy_(copied ? rows * piece_ : 0) {}

  int64_t piece() const { return piece_; }
  const product::EvenSplit& bands() const { return bands_; }

  /// How long the part from k on is.
  int64_t length(int64_t k) const { return std::min(part_, depth_ - k); }

  /// Makes the piece [first, end) ready.
  void load(int64_t first, int64_t end) {
    first_ = first;
    if (copy_.data() == nullptr) return;
    for (int64_t k = first; k < end; k += part_) {
      pack_bands(a_.from(0, k), bands_, length(k), part_at(k));
    }
  }

  /// Band `i` of the part from k on.
  Matrix<T> band(int64_t i, int64_t k) const {
    const int64_t row = bands_.begin(i);
    if (copy_.data() == nullptr) return a_.from(row, k);
    return {part_at(k) + row * length(k), 1, bands_.size(i)};
  }

 private:
  T* part_at(int64_t k) const { return copy_.data() + (k - first_) * rows_; }

  Matrix<T> a_;
  int64_t depth_, part_, piece_, first_ = 0;
  product::EvenSplit bands_;
  int64_t rows_;
  Scratch<T> copy_;
};

/// `rows` ≤ product::kRows and `width` ≤ kWidth columns of a product, b a panel.
template <class T>
void multiply_tile(int64_t rows, int64_t width, int64_t depth, const product::TileOperands<T>& x,
                   PrefetchPanel prefetch) {
  constexpr int64_t kLanes = product::kLanes<T>;
  if (width == kWidth<T>) {
    product::multiply_rows<product::kRows, kVectors, product::VectorOf<T, kLanes>>(rows, depth, x, prefetch);
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

/// The right factor of a product, [depth, width], in panels that tasks share. Packed by several threads.
template <class T>
class Panels {
 public:
  Panels(Matrix<T> b, int64_t depth, int64_t width)
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

/// c = a·b + base, without a base where its data is null, for a [rows, depth] and b [depth, width], each with a unit
/// stride in one dim. On the calling thread. `panel_at(k, column)` is the panel of b there, or null: then it is
/// packed here.
template <class T, class PanelAt>
void packed_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Matrix<T> b, PanelAt&& panel_at,
                    Rows<const T> base, Rows<T> c) {
  using namespace packed;
  const int64_t part = ceil_div(depth, ceil_div(depth, kPanelDepth));
  const Scratch<T> right(kWidth<T> * part);
  const bool far_apart = a.column * static_cast<int64_t>(sizeof(T)) >= kFarApart;
  LeftFactor<T> left(a, rows, depth, part, width >= kWide || far_apart);
  const product::EvenSplit& bands = left.bands();
  static_assert(kBlockWidth % kWidth<T> == 0);

  const auto add_part = [&](int64_t k, int64_t column) {  // to the columns of one panel
    const int64_t length = left.length(k), columns = std::min(kWidth<T>, width - column);
    const T *panel = panel_at(k, column), *next = nullptr;
    if (panel == nullptr) {
      pack_panel(b.from(k, column), length, columns, right.data());
      panel = right.data();
    } else if (column + kWidth<T> < width) {
      next = panel_at(k, column + kWidth<T>);
    }
    const Rows<const T> from = k > 0 ? Rows<const T>(c) : base;
    for (int64_t i = 0; i < bands.count; ++i) {
      const int64_t row = bands.begin(i);
      multiply_tile<T>(
          bands.size(i), columns, length,
          {left.band(i, k), {panel, kWidth<T>}, product::base_at(from, row, column), {c[row] + column, c.stride}},
          PrefetchPanel(next, length, i, bands.count));
    }
  };
  for (int64_t piece = 0; piece < depth; piece += left.piece()) {
    const int64_t end = std::min(depth, piece + left.piece());
    left.load(piece, end);
    for (int64_t block = 0; block < width; block += kBlockWidth) {
      const int64_t last = std::min(width, block + kBlockWidth);
      for (int64_t k = piece; k < end; k += part) {
        for (int64_t column = block; column < last; column += kWidth<T>) add_part(k, column);
      }
    }
  }
}

}  // namespace linnet::cpu::LINNET_ISA
