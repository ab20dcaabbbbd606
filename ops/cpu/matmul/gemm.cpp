#include <algorithm>
#include <optional>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/matmul/serial_gemm.h>

/// Batched matrix products. The output is divided into tiles, by its size alone; a task computes one tile. Weight
/// gradients have a small output and a long sum, so the sum is split too: the splits' results are added in order.
///
/// Tiles are packed products (packed_gemm.h), or with AMX products of three bfloat16 terms (bf16x3_gemm.h). Products
/// with a thin matrix are calls to BLAS: their elements are used too seldom for packing to pay. Measured in GFLOP/s
/// on 2 cores of a Xeon with AVX-512, against OpenBLAS 0.3.21 with its own threads, in alternation: 360 against 180
/// for 768×128·128×512 (b stored as [512, 128]), 330 against 215 for 6272×96·96×192, 260 against 195 for a gradient
/// 96×6272·6272×192, 340 against 347 for 1024×768·768×3072, 200 against 124 for 16×128·128×512; with AMX 490, 500,
/// 320, 470 and 195. With AVX2, on 2 cores of a Zen 3: 172 against 134 for 6272×96·96×96, 170 against 165 in the mean
/// of a step's products at width 768. On one core of a Zen 4, 512×768·768×3072 makes 103 where tasks share panels and
/// 80 where each packs its own.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Rows of a tile. Fewer rows use a panel too seldom, above all where the task packs it for itself; more do not stay
/// in a core's cache, or leave threads without work at the end.
constexpr int64_t kMinRows = 48, kMaxRowsShared = 128, kMaxRows = 256;
/// Columns of a tile. The left factor is packed once for all of them, so there may be many; where there are enough,
/// columns are split rather than the sum.
constexpr int64_t kMaxColumns = 4096, kEnoughColumns = 1024;
/// The shortest split of a long sum, and the most splits, which bounds the memory for their results.
constexpr int64_t kMinDepth = 768, kMaxSplits = 16;
/// Enough tasks that one slow core does not delay four; the least multiplications of a task, about 6 µs.
constexpr int64_t kTasks = 8, kMinWork = int64_t{1} << 18;
/// A right factor of up to kShared elements is packed once for all tasks. So is one of up to kSharedByMany, if at
/// least kSharers tasks would pack it for themselves. Of a larger one, each task packs the part that it needs.
constexpr int64_t kShared = int64_t{1} << 18, kSharedByMany = int64_t{1} << 22, kSharers = 3;

/// One dimension split into ranges of `size`; the last one may be smaller.
struct DimSplit {
  int64_t total, size, count;

  /// About `splits` equal ranges, of at least `min` and at most about `max`, in multiples of `unit`.
  DimSplit(int64_t total_, int64_t splits, int64_t min, int64_t max, int64_t unit) : total(total_) {
    splits = std::max(splits, ceil_div(total, max));
    size = round_up(std::max(min, ceil_div(total, splits)), unit);
    count = ceil_div(total, size);
  }

  int64_t begin(int64_t i) const { return i * size; }
  int64_t length(int64_t i) const { return std::min(size, total - i * size); }
};

/// How each product of a batch, [m, k]·[k, n], is split, and whether its tiles may share panels.
struct GemmPlan {
  DimSplit rows, columns, depth;
  bool shared;

  int64_t tiles() const { return rows.count * columns.count; }
};

/// Columns are split between panels, and rows between row tiles.
template <class T>
GemmPlan make_plan(int64_t batch, int64_t m, int64_t n, int64_t k) {
  constexpr bool use_bf16x3 = kUsesBf16x3<T>;
  constexpr int64_t panel = use_bf16x3 ? bf16x3::kPanel : packed::kWidth<T>;
  const int64_t tasks = std::max<int64_t>(1, std::min(ceil_div(kTasks, batch), m * n * k / kMinWork));
  const int64_t row_splits = std::max<int64_t>(1, std::min(tasks, m / kMinRows));
  const bool shared = batch == 1 && n * k <= (row_splits >= kSharers ? kSharedByMany : kShared);
  const bool split_depth = row_splits * ceil_div(n, kEnoughColumns) < tasks;
  const DimSplit depth(k, split_depth ? std::min(kMaxSplits, k / kMinDepth) : 1, 1, k, bf16x3::kDepth);
  const DimSplit columns(n, ceil_div(tasks, depth.count * row_splits), panel, kMaxColumns, panel);
  const DimSplit rows(m, ceil_div(tasks, depth.count * columns.count), kMinRows,
                      shared && !use_bf16x3 ? kMaxRowsShared : kMaxRows, use_bf16x3 ? bf16x3::kSide : product::kRows);
  return {rows, columns, depth, shared};
}

/// An operand [batch, rows, columns]: in place if one of the last two dims has unit stride, which BLAS and
/// `packed_gemm` require, otherwise a copy.
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

/// Adds the results of the other splits of the sum, in order, to the product, which has the first split's.
template <class T, class OutRows>
void add_splits(int64_t batch, int64_t m, int64_t n, int64_t splits, const T* others, OutRows out_rows) {
  parallel_for(batch * m, std::max<int64_t>(1, kGrain / (n * splits)), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      T* row = out_rows(line / m, line % m, 0).data;
      for (int64_t split = 0; split < splits - 1; ++split) {
        const T* added = others + (split * batch * m + line) * n;
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
  const GemmPlan plan = make_plan<T>(batch, m, n, k);
  const bool thin = is_thin<T>(m, n);
  std::optional<SharedPanels<T>> shared;
  const bool too_short = kUsesBf16x3<T> && k < bf16x3::kDepth;  // a step of bf16x3 would be mostly zeros
  if (!thin && !too_short && plan.shared && plan.rows.count > 1) shared.emplace(b.matrix(0), k, n);
  // The first split of a sum goes to the output, the others to scratch memory, to be added in order.
  const int64_t splits = plan.depth.count;
  const Scratch<T> partial((splits - 1) * batch * m * n);

  const int64_t tasks = batch * plan.tiles() * splits;
  const int64_t grain = std::max<int64_t>(1, kMinWork * tasks / (batch * m * n * k));
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t split = task % splits;
      const int64_t tile = task / splits % plan.tiles();
      const int64_t i = task / splits / plan.tiles();
      const int64_t row_split = tile / plan.columns.count, column_split = tile % plan.columns.count;
      const int64_t row = plan.rows.begin(row_split), rows = plan.rows.length(row_split);
      const int64_t column = plan.columns.begin(column_split), columns = plan.columns.length(column_split);
      const int64_t from = plan.depth.begin(split), depth = plan.depth.length(split);

      const Matrix<T> left = a.matrix(i).from(row, from), right = b.matrix(i).from(from, column);
      const Rows<T> c = split == 0
                            ? out_rows(i, row, column)
                            : Rows<T>{partial.data() + ((split - 1) * batch + i) * m * n + row * n + column, n};
      const Rows<const T> base{split == 0 && bias.data() != nullptr ? bias.data() + column : nullptr, 0};
      if (thin) {
        thin_gemm<T>(rows, columns, depth, left, right, base, c);
      } else {
        const auto shared_at = [&](int64_t at, int64_t x) {
          return shared ? shared->at(from + at, column + x) : nullptr;
        };
        tiled_gemm<T>(rows, columns, depth, left, right, shared_at, too_short, base, c);
      }
    }
  });

  if (splits > 1) add_splits<T>(batch, m, n, splits, partial.data(), out_rows);
}

void matrix_product(View out, View a, View b, const View* bias) {
  dispatch_floating(out.dtype, [&]<class T>(T) { product<T>(out, a, b, bias); });
}

}  // namespace

void fill_gemm(Backend& table) { table.gemm = matrix_product; }

}  // namespace linnet::cpu::LINNET_ISA
