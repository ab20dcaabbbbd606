#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/kernel.h>
#include <linnet/ops/cpu/scratch.h>

/// Batched matrix products: the output is cut into tiles, by its size alone, and each tile is one serial BLAS
/// call on one of the threads.
///
/// Sizes measured with OpenBLAS 0.3.21 (SkylakeX kernels, 4 cores at 245 GFLOP/s each). Tiles as wide as the
/// output are best, because BLAS packs both operands anew for each: 768×128·128×512 runs at 760 GFLOP/s in
/// tiles of 96×512 and at 600 in tiles of 256×256, 6272×96·96×96 at 765 in tiles of 192×96. For the same reason
/// wide ones are high: on 2 cores, 1024×768·768×3072 runs at 147 GFLOP/s in tiles of 512×512 and at 126 in tiles of
/// 192×512. Weight gradients have a small output and a long sum: 96×6272·6272×96 runs at 750 GFLOP/s with the sum
/// cut at 768, and at 230 uncut.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// A tile may have more rows than these where it has as many columns.
constexpr int64_t kMinRows = 48, kMaxRows = 192;
constexpr int64_t kMinColumns = 64, kMaxColumns = 512;
/// The shortest part that a long sum is cut into, and the most parts, which bounds the memory for their
/// results.
constexpr int64_t kMinDepth = 768, kMaxParts = 16;
/// Enough tasks that a slow core does not hold up four, none of less than about 2 µs (in multiplications).
constexpr int64_t kTasks = 8, kMinWork = int64_t{1} << 18;

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One dimension in pieces of a size; the last one may be smaller.
struct Cut {
  int64_t total, size, count;

  /// About `pieces` equal ones, of at least `min` and at most `max`, in multiples of 16, which suit BLAS's
  /// kernels.
  Cut(int64_t total_, int64_t pieces, int64_t min, int64_t max) : total(total_) {
    pieces = larger(pieces, ceil_div(total, max));
    size = larger(min, ceil_div(ceil_div(total, pieces), 16) * 16);
    count = ceil_div(total, size);
  }

  int64_t begin(int64_t piece) const { return piece * size; }
  int64_t length(int64_t piece) const { return smaller(size, total - piece * size); }
};

/// How each product of a batch, [m, k]·[k, n], is cut.
struct Plan {
  Cut rows, columns, depth;

  int64_t tiles() const { return rows.count * columns.count; }
};

Plan make_plan(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const int64_t tasks = larger(1, smaller(ceil_div(kTasks, batch), m * n * k / kMinWork));
  const int64_t row_pieces = larger(1, smaller(tasks, m / kMinRows));
  const bool cut_sum = row_pieces * ceil_div(n, kMaxColumns) < tasks;
  const Cut depth(k, cut_sum ? smaller(kMaxParts, k / kMinDepth) : 1, 1, k);
  const Cut columns(n, ceil_div(tasks, depth.count * row_pieces), kMinColumns, kMaxColumns);
  const Cut rows(m, ceil_div(tasks, depth.count * columns.count), kMinRows, larger(kMaxRows, columns.size));
  return {rows, columns, depth};
}

/// An operand [batch, rows, columns] as BLAS takes it: in place when one of the last two dims has unit
/// stride, otherwise as a copy of its own.
template <class T>
class Operand {
 public:
  explicit Operand(const View& x)
      : data_(linnet::cpu::LINNET_ISA::data<T>(x)),
        batch_stride_(x.shape[0] == 1 ? 0 : x.strides[0]),
        copy_(is_row_major(x) || is_column_major(x) ? 0 : (batch_stride_ == 0 ? 1 : x.shape[0]) * matrix_size(x)) {
    const int64_t rows = x.shape[1], columns = x.shape[2];
    if (is_row_major(x)) {
      leading_ = rows == 1 ? columns : x.strides[1];
    } else if (is_column_major(x)) {
      leading_ = columns == 1 ? rows : x.strides[2];
      transposed_ = true;
    } else {
      const int64_t shape[] = {batch_stride_ == 0 ? 1 : x.shape[0], rows, columns};
      const int64_t strides[] = {rows * columns, columns, 1};
      map<T, T>(View{copy_.data(), x.dtype, 3, shape, strides}, View{x.data, x.dtype, 3, shape, x.strides},
                [](T value) { return value; });
      data_ = copy_.data();
      if (batch_stride_ != 0) batch_stride_ = rows * columns;
      leading_ = columns;
    }
  }

  bool transposed() const { return transposed_; }
  int64_t leading() const { return leading_; }
  /// Where the tile of one product starts that has element (row, column) as its first.
  const T* at(int64_t batch, int64_t row, int64_t column) const {
    return data_ + batch * batch_stride_ + (transposed_ ? column * leading_ + row : row * leading_ + column);
  }

 private:
  static int64_t matrix_size(const View& x) { return x.shape[1] * x.shape[2]; }
  static bool is_row_major(const View& x) {
    return (x.shape[2] == 1 || x.strides[2] == 1) && (x.shape[1] == 1 || x.strides[1] >= x.shape[2]);
  }
  static bool is_column_major(const View& x) {
    return (x.shape[1] == 1 || x.strides[1] == 1) && (x.shape[2] == 1 || x.strides[2] >= x.shape[1]);
  }

  const T* data_;
  int64_t batch_stride_, leading_;
  bool transposed_ = false;
  Scratch<T> copy_;
};

/// A tile of the output: rows of `columns` elements, `stride` apart.
template <class T>
struct Tile {
  T* data;
  int64_t rows, columns, stride;
};

/// tile = bias (+ tile), or 0 (+ tile) without a bias: what the product is then added to.
template <class T>
void start_from(const Tile<T>& tile, const T* bias, int64_t bias_stride, bool accumulate) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    T* row = tile.data + r * tile.stride;
    for (int64_t c = 0; c < tile.columns; ++c) {
      row[c] = (accumulate ? row[c] : T{0}) + (bias != nullptr ? bias[c * bias_stride] : T{0});
    }
  }
}

template <class T>
void product(const View& out, const View& a_view, const View& b_view, const View* bias, bool accumulate) {
  const int64_t batch = out.shape[0], m = out.shape[1], n = out.shape[2], k = a_view.shape[2];
  if (batch * m * n == 0) return;
  const int64_t out_stride = m == 1 ? n : out.strides[1];
  const auto out_tile = [&](int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    return Tile<T>{data<T>(out) + i * out.strides[0] + row * out_stride + column, rows, columns, out_stride};
  };
  const int64_t bias_stride = bias != nullptr ? bias->strides[0] : 0;
  if (k == 0) {
    const T* start = bias != nullptr ? data<T>(*bias) : nullptr;
    for (int64_t i = 0; i < batch; ++i) start_from(out_tile(i, 0, m, 0, n), start, bias_stride, accumulate);
    return;
  }

  const Operand<T> a(a_view), b(b_view);
  const Plan plan = make_plan(batch, m, n, k);
  // The first part of a sum goes to the output, the others beside it, to be added in order.
  const int64_t parts = plan.depth.count;
  Scratch<T> partial((parts - 1) * batch * m * n);

  const int64_t items = batch * plan.tiles() * parts;
  const int64_t grain = larger(1, kMinWork * items / (batch * m * n * k));
  parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t part = item % parts;
      const int64_t tile_index = item / parts % plan.tiles();
      const int64_t i = item / parts / plan.tiles();
      const int64_t row_piece = tile_index / plan.columns.count, column_piece = tile_index % plan.columns.count;
      const int64_t row = plan.rows.begin(row_piece), rows = plan.rows.length(row_piece);
      const int64_t column = plan.columns.begin(column_piece), columns = plan.columns.length(column_piece);
      const int64_t from = plan.depth.begin(part);

      Tile<T> tile = out_tile(i, row, rows, column, columns);
      T beta = accumulate ? T{1} : T{0};
      if (part > 0) {
        tile = {partial.data() + ((part - 1) * batch + i) * m * n + row * n + column, rows, columns, n};
        beta = 0;
      } else if (bias != nullptr) {
        start_from(tile, data<T>(*bias) + column * bias_stride, bias_stride, accumulate);
        beta = 1;
      }
      gemm<T>(a.transposed(), b.transposed(), rows, columns, plan.depth.length(part), 1, a.at(i, row, from),
              a.leading(), b.at(i, from, column), b.leading(), beta, tile.data, tile.stride);
    }
  });

  if (parts == 1) return;
  parallel_for(batch * m, larger(1, kGrain / (n * parts)), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      T* row = out_tile(line / m, line % m, 1, 0, n).data;
      for (int64_t part = 0; part < parts - 1; ++part) {
        const T* added = partial.data() + (part * batch * m + line) * n;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) row[c] += added[c];
      }
    }
  });
}

void matrix_product(View out, View a, View b, const View* bias, bool accumulate) {
  dispatch_floating(out.dtype, [&]<class T>(T) { product<T>(out, a, b, bias, accumulate); });
}

}  // namespace

void fill_gemm(Backend& table) { table.gemm = matrix_product; }

}  // namespace linnet::cpu::LINNET_ISA
