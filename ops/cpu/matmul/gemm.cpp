#include <algorithm>
#include <optional>

#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/matmul/bf16x3_gemm.h>
#include <linnet/ops/cpu/matmul/packed_gemm.h>

/// Batched matrix products: the output is cut into tiles, by its size alone, each for one of the threads. Weight
/// gradients have a small output and a long sum, so the sum is cut too: its parts are added in order.
///
/// Tiles are packed products (packed_product.h), with AMX of split numbers (split_product.h), except of thin
/// matrices, whose elements are used too seldom for copies of them to pay: those are calls to BLAS. In GFLOP/s of 2
/// cores of a Xeon with AVX-512, beside OpenBLAS 0.3.21 with its own threads, in alternation: 360 against 180 for
/// 768×128·128×512 (b lies as [512, 128]), 330 against 215 for 6272×96·96×192, 260 against 195 for a gradient
/// 96×6272·6272×192, 340 against 347 for 1024×768·768×3072, 200 against 124 for 16×128·128×512; with its AMX 490,
/// 500, 320, 470 and 195. With AVX2, on 2 cores of a Zen 3: 172 against 134 for 6272×96·96×96, 170 against 165 in the
/// mean of a step's products at width 768.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// A tile's rows: fewer use a panel too seldom, the more so where they pack it for themselves; more do not stay in a
/// core's cache, or leave threads without work at the end.
constexpr int64_t kMinRows = 48, kMaxRowsShared = 128, kMaxRows = 256;
/// Its columns: rows are copied once for all of them, so there may be many; where there are enough, they are cut
/// rather than the sum.
constexpr int64_t kMaxColumns = 4096, kEnoughColumns = 1024;
/// The shortest part that a long sum is cut into, and the most parts, which bounds the memory for their
/// results.
constexpr int64_t kMinDepth = 768, kMaxParts = 16;
/// Enough tasks that a slow core does not hold up four, none of less than about 6 µs (in multiplications).
constexpr int64_t kTasks = 8, kMinWork = int64_t{1} << 18;
/// A product of fewer rows is thin, and one of fewer columns than a panel has.
constexpr int64_t kThinRows = 16;
/// A right factor of so many elements, or fewer, is packed once for all tasks, also a larger one that at least
/// kSharers tasks would pack for themselves; of others each packs what it needs.
constexpr int64_t kShared = int64_t{1} << 18, kSharedByMany = int64_t{1} << 22, kSharers = 3;

/// One dimension in pieces of a size; the last one may be smaller.
struct Cut {
  int64_t total, size, count;

  /// About `pieces` equal ones, of at least `min` and about `max` at most, in multiples of `unit`.
  Cut(int64_t total_, int64_t pieces, int64_t min, int64_t max, int64_t unit) : total(total_) {
    pieces = std::max(pieces, ceil_div(total, max));
    size = round_up(std::max(min, ceil_div(total, pieces)), unit);
    count = ceil_div(total, size);
  }

  int64_t begin(int64_t piece) const { return piece * size; }
  int64_t length(int64_t piece) const { return std::min(size, total - piece * size); }
};

/// How each product of a batch, [m, k]·[k, n], is cut, and whether its tiles may share panels.
struct Plan {
  Cut rows, columns, depth;
  bool shared;

  int64_t tiles() const { return rows.count * columns.count; }
};

/// Columns are cut between panels, and rows between bands; of what is `split_up`, between stripes.
template <class T>
Plan make_plan(int64_t batch, int64_t m, int64_t n, int64_t k) {
  constexpr bool split_up = kSplits<T>;
  constexpr int64_t panel = split_up ? split::kStripe : packed::kWidth<T>;
  const bool shared = batch == 1 && n * k <= (m >= kSharers * kMaxRows ? kSharedByMany : kShared);
  const int64_t tasks = std::max<int64_t>(1, std::min(ceil_div(kTasks, batch), m * n * k / kMinWork));
  const int64_t row_pieces = std::max<int64_t>(1, std::min(tasks, m / kMinRows));
  const bool cut_sum = row_pieces * ceil_div(n, kEnoughColumns) < tasks;
  const Cut depth(k, cut_sum ? std::min(kMaxParts, k / kMinDepth) : 1, 1, k, split::kDepth);
  const Cut columns(n, ceil_div(tasks, depth.count * row_pieces), panel, kMaxColumns, panel);
  const Cut rows(m, ceil_div(tasks, depth.count * columns.count), kMinRows,
                 shared && !split_up ? kMaxRowsShared : kMaxRows, split_up ? split::kSide : product::kRows);
  return {rows, columns, depth, shared};
}

/// An operand [batch, rows, columns]: in place when one of the last two dims has unit stride, as BLAS and our own
/// products want it, otherwise as a copy.
template <class T>
class Operand {
 public:
  explicit Operand(const View& x)
      : data_(linnet::cpu::LINNET_ISA::data<T>(x)),
        batch_stride_(x.shape[0] == 1 ? 0 : x.strides[0]),
        copy_(is_row_major(x) || is_column_major(x) ? 0 : (batch_stride_ == 0 ? 1 : x.shape[0]) * matrix_size(x)) {
    const int64_t rows = x.shape[1], columns = x.shape[2];
    if (is_row_major(x)) {
      row_ = rows == 1 ? columns : x.strides[1];
    } else if (is_column_major(x)) {
      row_ = 1;
      column_ = columns == 1 ? rows : x.strides[2];
    } else {
      const int64_t shape[] = {batch_stride_ == 0 ? 1 : x.shape[0], rows, columns};
      const int64_t strides[] = {rows * columns, columns, 1};
      map<T, T>(View{copy_.data(), x.dtype, 3, shape, strides}, View{x.data, x.dtype, 3, shape, x.strides},
                [](T value) { return value; });
      data_ = copy_.data();
      if (batch_stride_ != 0) batch_stride_ = rows * columns;
      row_ = columns;
    }
  }

  Matrix<T> matrix(int64_t batch) const { return {data_ + batch * batch_stride_, row_, column_}; }

 private:
  static int64_t matrix_size(const View& x) { return x.shape[1] * x.shape[2]; }
  static bool is_row_major(const View& x) {
    return (x.shape[2] == 1 || x.strides[2] == 1) && (x.shape[1] == 1 || x.strides[1] >= x.shape[2]);
  }
  static bool is_column_major(const View& x) {
    return (x.shape[1] == 1 || x.strides[1] == 1) && (x.shape[2] == 1 || x.strides[2] >= x.shape[1]);
  }

  const T* data_;
  int64_t batch_stride_, row_, column_ = 1;
  Scratch<T> copy_;
};

/// A bias [n] with unit stride, or null.
template <class T>
class Bias {
 public:
  explicit Bias(const View* view)
      : data_(view != nullptr ? linnet::cpu::LINNET_ISA::data<T>(*view) : nullptr),
        copy_(view != nullptr && view->strides[0] != 1 ? view->shape[0] : 0) {
    if (copy_.data() == nullptr) return;
    for (int64_t c = 0; c < view->shape[0]; ++c) copy_[c] = data_[c * view->strides[0]];
    data_ = copy_.data();
  }

  const T* data() const { return data_; }

 private:
  const T* data_;
  Scratch<T> copy_;
};

/// c = base, or 0 where there is none.
template <class T>
void start_from(Rows<const T> base, int64_t rows, int64_t columns, Rows<T> c) {
  for (int64_t r = 0; r < rows; ++r) {
    if (base.data != nullptr) {
      std::copy_n(base[r], columns, c[r]);
    } else {
      std::fill_n(c[r], columns, T{0});
    }
  }
}

/// c = a·b + base by BLAS.
template <class T>
void thin_product(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, Matrix<T> b, Rows<const T> base,
                  Rows<T> c) {
  if (base.data != nullptr) start_from(base, rows, columns, c);
  const bool transpose_a = a.column != 1, transpose_b = b.column != 1;
  gemm<T>(transpose_a, transpose_b, rows, columns, depth, 1, a.data, transpose_a ? a.column : a.row, b.data,
          transpose_b ? b.column : b.row, base.data != nullptr ? 1 : 0, c.data, c.stride);
}

/// The right factor, for several tasks.
template <class T>
using SharedRight = std::conditional_t<kSplits<T>, SplitPanels, Panels<T>>;

/// c = a·b + base, from what is shared of b where that is not null.
template <class T, class SharedAt>
void thick_product(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, Matrix<T> b, SharedAt shared_at,
                   bool too_short, Rows<const T> base, Rows<T> c) {
  if constexpr (kSplits<T>) {
    if (!too_short && split_product(rows, columns, depth, a, b, shared_at, base, c)) return;
    // Infinities, what overflows, and short sums are products of floats as they are.
    const auto nothing_shared = [](int64_t, int64_t) -> const T* { return nullptr; };
    packed_product<T>(rows, columns, depth, a, b, nothing_shared, base, c);
  } else {
    packed_product<T>(rows, columns, depth, a, b, shared_at, base, c);
  }
}

/// Adds to the rows of a product, which have the first part of the sum, the others, in order.
template <class T, class OutRows>
void join_parts(int64_t batch, int64_t m, int64_t n, int64_t parts, const T* others, OutRows out_rows) {
  parallel_for(batch * m, std::max<int64_t>(1, kGrain / (n * parts)), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      T* row = out_rows(line / m, line % m, 0).data;
      for (int64_t part = 0; part < parts - 1; ++part) {
        const T* added = others + (part * batch * m + line) * n;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) row[c] += added[c];
      }
    }
  });
}

template <class T>
void product(const View& out, const View& a_view, const View& b_view, const View* bias_view) {
  const int64_t batch = out.shape[0], m = out.shape[1], n = out.shape[2], k = a_view.shape[2];
  if (batch * m * n == 0) return;
  const int64_t out_stride = m == 1 ? n : out.strides[1];
  const auto out_rows = [&](int64_t i, int64_t row, int64_t column) {
    return Rows<T>{data<T>(out) + i * out.strides[0] + row * out_stride + column, out_stride};
  };
  const Bias<T> bias(bias_view);
  if (k == 0) {
    for (int64_t i = 0; i < batch; ++i) start_from<T>({bias.data(), 0}, m, n, out_rows(i, 0, 0));
    return;
  }

  const Operand<T> a(a_view), b(b_view);
  const Plan plan = make_plan<T>(batch, m, n, k);
  const bool thin = m < kThinRows || n < packed::kWidth<T>;
  std::optional<SharedRight<T>> shared;
  const bool too_short = kSplits<T> && k < split::kDepth;  // to be split: it would be filled up with zeros
  if (!thin && !too_short && plan.shared && plan.rows.count > 1) shared.emplace(b.matrix(0), k, n);
  // The first part of a sum goes to the output, the others beside it, to be added in order.
  const int64_t parts = plan.depth.count;
  const Scratch<T> partial((parts - 1) * batch * m * n);

  const int64_t items = batch * plan.tiles() * parts;
  const int64_t grain = std::max<int64_t>(1, kMinWork * items / (batch * m * n * k));
  parallel_for(items, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t part = item % parts;
      const int64_t tile = item / parts % plan.tiles();
      const int64_t i = item / parts / plan.tiles();
      const int64_t row_piece = tile / plan.columns.count, column_piece = tile % plan.columns.count;
      const int64_t row = plan.rows.begin(row_piece), rows = plan.rows.length(row_piece);
      const int64_t column = plan.columns.begin(column_piece), columns = plan.columns.length(column_piece);
      const int64_t from = plan.depth.begin(part), depth = plan.depth.length(part);

      const Matrix<T> left = a.matrix(i).from(row, from), right = b.matrix(i).from(from, column);
      const Rows<T> c = part == 0 ? out_rows(i, row, column)
                                  : Rows<T>{partial.data() + ((part - 1) * batch + i) * m * n + row * n + column, n};
      const Rows<const T> base{part == 0 && bias.data() != nullptr ? bias.data() + column : nullptr, 0};
      if (thin) {
        thin_product<T>(rows, columns, depth, left, right, base, c);
      } else {
        const auto shared_at = [&](int64_t at, int64_t x) {
          return shared ? shared->at(from + at, column + x) : nullptr;
        };
        thick_product<T>(rows, columns, depth, left, right, shared_at, too_short, base, c);
      }
    }
  });

  if (parts > 1) join_parts<T>(batch, m, n, parts, partial.data(), out_rows);
}

void matrix_product(View out, View a, View b, const View* bias) {
  dispatch_floating(out.dtype, [&]<class T>(T) { product<T>(out, a, b, bias); });
}

}  // namespace

void fill_gemm(Backend& table) { table.gemm = matrix_product; }

}  // namespace linnet::cpu::LINNET_ISA
