#pragma once

#include <algorithm>

#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>
#include <linnet/ops/cpu/tile_product.h>
#include <linnet/ops/cpu/transpose.h>

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

/// A narrow result is cheap to read and write once more for each part of a long sum: so parts are short, and a panel
/// stays in the nearest cache. For a wide one they are long, and the left factor is copied too, in bands as high as a
/// tile: it is read once for each panel, and would be from as many pages as it has rows.
constexpr int64_t kWide = 256;
constexpr int64_t kNarrowDepth = 128, kWideDepth = 768;

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
void pack_bands(Matrix<T> a, const product::Bands& bands, int64_t depth, T* to) {
  if (a.column == 1) {
    for (int64_t i = 0; i < bands.count; ++i) {
      const int64_t row = bands.begin(i), height = bands.height(i);
      transpose<T>(height, depth, {a.data + row * a.row, a.row}, {to + depth * row, height});
    }
    return;
  }
  constexpr int64_t kStep = 8;  // columns that are copied together: bands lie so far apart that they share cache sets
  for (int64_t first = 0; first < depth; first += kStep) {
    const int64_t last = std::min(first + kStep, depth);
    for (int64_t i = 0; i < bands.count; ++i) {
      const int64_t row = bands.begin(i), height = bands.height(i);
      T* band = to + depth * row;
      for (int64_t k = first; k < last; ++k) {
        copy_up_to<product::kRows>(a.data + row + k * a.column, height, band + k * height);
      }
    }
  }
}

/// `rows` ≤ product::kRows and `width` ≤ kWidth columns of a product, b a panel.
template <class T>
void multiply_tile(int64_t rows, int64_t width, int64_t depth, const product::Operands<T>& x) {
  constexpr int64_t kLanes = product::kLanes<T>;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t l = 0; l < width; l += kLanes) __builtin_prefetch(x.c[r] + l, 1);
  }
  if (width == kWidth<T>) {
    product::multiply_rows<product::kRows, kVectors, product::VectorOf<T, kLanes>>(rows, depth, x);
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
  const bool wide = width >= kWide;
  const int64_t parts = ceil_div(depth, wide ? kWideDepth : kNarrowDepth), part = ceil_div(depth, parts);
  const product::Bands bands(rows, product::kRows);
  const Scratch<T> left(wide ? rows * part : 0), right(kWidth<T> * part);
  for (int64_t k = 0; k < depth; k += part) {
    const int64_t length = std::min(part, depth - k);
    if (wide) pack_bands(a.from(0, k), bands, length, left.data());
    if (k > 0) base = c;
    for (int64_t column = 0; column < width; column += kWidth<T>) {
      const int64_t columns = std::min(kWidth<T>, width - column);
      const T* packed = panel_at(k, column);
      if (packed == nullptr) {
        pack_panel(b.from(k, column), length, columns, right.data());
        packed = right.data();
      }
      const Rows<const T> panel{packed, kWidth<T>};
      for (int64_t i = 0; i < bands.count; ++i) {
        const int64_t row = bands.begin(i), height = bands.height(i);
        const Matrix<T> band = wide ? Matrix<T>{left.data() + row * length, 1, height} : a.from(row, k);
        multiply_tile<T>(height, columns, length,
                         {band, panel, product::base_at(base, row, column), {c[row] + column, c.stride}});
      }
    }
  }
}

}  // namespace linnet::cpu::LINNET_ISA
