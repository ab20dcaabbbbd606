#pragma once

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/tensor.h>

/// Checks and conversions of arguments that several families of ops share. Internal to ops/.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Checks that x has the shape of `other`.
///
/// Throws: ShapeError.
void check_same_shape(const Tensor& x, const char* name, const Tensor& other, const char* other_name);

/// The product of all sizes of x [..., C] but the last.
int64_t rows_of(const Tensor& x);

/// x as kernels take it: contiguous and without history. An undefined x stays undefined.
Tensor dense(const Tensor& x);

/// dense(x) of x [..., C] as [rows, C].
Tensor dense_rows(const Tensor& x);

/// ⌈n / step⌉ for n ≥ 0, without overflow for any step of at least 1.
constexpr int64_t ceil_div(int64_t n, int64_t step) { return n / step + (n % step != 0 ? 1 : 0); }

/// a + b, the size of a dim.
///
/// Throws: MemoryError for more than 64 bits can count.
int64_t sum_of_sizes(int64_t a, int64_t b);

/// x in the dtype in which ops compute: float32 for bfloat16, x itself otherwise.
Tensor in_computed(const Tensor& x);

/// A tensor that may be undefined, as kernels take it: its view, or null.
class OptionalView {
 public:
  explicit OptionalView(const Tensor& x) : x_(x), view_(x.defined() ? detail::view(x) : View{}) {}
  const View* get() const { return x_.defined() ? &view_ : nullptr; }

 private:
  Tensor x_;  // owns the shape and strides that the view points to
  View view_;
};

}  // namespace detail
}  // namespace linnet
