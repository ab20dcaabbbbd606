#include <algorithm>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/matmul/blas.cuh>

/// Batched matrix products by cuBLAS. Operands are passed in place, or copied if neither of their last two dims has
/// stride 1. The product's kernel adds the bias if cuBLASLt has such a kernel.

namespace linnet::cuda {
namespace {

/// Whether dim `along` has stride 1 and rows along it do not overlap. A dim of size 1 may have any stride.
bool has_unit_stride(const View& x, int along, int across) {
  return (x.shape[along] == 1 || x.strides[along] == 1) &&
         (x.shape[across] == 1 || x.strides[across] >= x.shape[along]);
}

/// An operand [batch, rows, columns] as cuBLAS takes it.
template <class T>
class BlasOperand {
 public:
  explicit BlasOperand(const View& x)
      : in_place_(has_unit_stride(x, 2, 1) || has_unit_stride(x, 1, 2)),
        matrices_(x.shape[0] == 1 || x.strides[0] == 0 ? 1 : x.shape[0]),
        copy_(in_place_ ? 0 : matrices_ * x.shape[1] * x.shape[2]) {
    const int64_t rows = x.shape[1], columns = x.shape[2];
    result_ = {data<const T>(x), columns, matrices_ == 1 ? 0 : x.strides[0], false};
    if (has_unit_stride(x, 2, 1)) {
      if (rows > 1) result_.leading = x.strides[1];
    } else if (in_place_) {
      result_.leading = columns > 1 ? x.strides[2] : rows;
      result_.transposed = true;
    } else {
      const int64_t shape[] = {matrices_, rows, columns};
      const int64_t strides[] = {rows * columns, columns, 1};
      cuda_backend().copy({copy_.data(), x.dtype, 3, shape, strides}, {x.data, x.dtype, 3, shape, x.strides});
      result_ = {copy_.data(), columns, matrices_ == 1 ? 0 : rows * columns, false};
    }
  }

  const Matrices<const T>& matrices() const { return result_; }

 private:
  bool in_place_;
  int64_t matrices_;
  Scratch<T> copy_;
  Matrices<const T> result_;
};

/// A bias [n] as contiguous elements of type T, whose dtype is `dtype`, at an address that is a multiple of 16: in
/// place if possible, otherwise copied. cuBLASLt does not require this alignment, but kernels of some of its
/// versions fault without it.
template <class T>
class DenseBias {
 public:
  DenseBias(const View& x, DType dtype)
      : in_place_(x.dtype == dtype && (x.shape[0] == 1 || x.strides[0] == 1) &&
                  reinterpret_cast<uintptr_t>(x.data) % 16 == 0),
        copy_(in_place_ ? 0 : x.shape[0]) {
    const int64_t strides[] = {1};
    if (!in_place_) cuda_backend().copy({copy_.data(), dtype, 1, x.shape, strides}, x);
    data_ = in_place_ ? cuda::data<const T>(x) : copy_.data();
  }

  const T* data() const { return data_; }

 private:
  bool in_place_;
  Scratch<T> copy_;
  const T* data_;
};

/// out = bias, or 0 without one. The product is then added to out.
void start_from(const View& out, const View* bias) {
  if (bias == nullptr) return cuda_backend().fill(out, 0);
  const int64_t strides[] = {0, 0, bias->strides[0]};
  cuda_backend().copy(out, {bias->data, bias->dtype, 3, out.shape, strides});
}

/// out = a·b + bias, with factors of type F and a result of type T.
template <class F, class T>
void product(const View& out, const View& a, const View& b, const View* bias) {
  const int64_t batch = out.shape[0], m = out.shape[1], n = out.shape[2], k = a.shape[2];
  if (batch * m * n == 0) return;
  if (k == 0) return start_from(out, bias);
  const BlasOperand<F> left(a), right(b);
  const Matrices<T> result{data<T>(out), m == 1 ? n : out.strides[1], batch == 1 ? 0 : out.strides[0], false};
  if (bias == nullptr) return gemm(batch, m, n, k, left.matrices(), right.matrices(), false, result);
  if (batch == 1) {
    const DenseBias<T> offsets(*bias, out.dtype);
    if (gemm_with_bias(m, n, k, left.matrices(), right.matrices(), offsets.data(), result)) return;
  }
  start_from(out, bias);
  gemm(batch, m, n, k, left.matrices(), right.matrices(), true, result);
}

void matrix_product(View out, View a, View b, const View* bias) {
  if (a.dtype != DType::bfloat16) {
    dispatch_floating(out.dtype, [&](auto zero) { product<decltype(zero), decltype(zero)>(out, a, b, bias); });
  } else if (out.dtype == DType::bfloat16) {
    product<BFloat16, BFloat16>(out, a, b, bias);
  } else {
    product<BFloat16, float>(out, a, b, bias);
  }
}

}  // namespace

void fill_gemm(Backend& table) { table.gemm = matrix_product; }

}  // namespace linnet::cuda
