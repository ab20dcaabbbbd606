#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/core/index.h>
#include <linnet/core/memory_stats.h>
#include <linnet/core/operand.h>
#include <linnet/core/refused_members.h>
#include <linnet/core/removable_handle.h>
#include <linnet/core/shape.h>
#include <linnet/core/where.h>

namespace linnet {

struct ValuesAndIndices;
struct UniqueElements;

namespace detail {
struct TensorAccess;  // access for ops and kernels: core/device/kernel_access.h
}

/// An n-dimensional array. A Tensor is a handle: its copies share its elements, and so do its views (reshape,
/// transpose, …); `clone()` copies the elements. A negative dim counts from the end.
///
/// Two threads may use different tensors at once, or read the same one.
///
/// Cost: a view copies nothing. A member that copies says so, and takes one pass over the elements.
/// Throws: every member throws ShapeError for dims or shapes that do not fit or exist, and ValueError for an
/// undefined tensor.
class Tensor : public detail::RefusedMembers {
 public:
  /// An undefined tensor: `defined()` is false, and any other use throws.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Writes into the elements of an expression, as in `x[0] = y` and `x[0] = 1`, like `copy_` and `fill_`.
  ///
  /// Throws: ValueError if the expression made a copy, as `x.masked_select(x > 0) = 1` does: write
  /// `x.copy_(x.masked_fill(x > 0, 1))`.
  Tensor& operator=(Operand source) &&;
  Tensor& operator=(NumberOperand value) &&;

  /// A row-major tensor with uninitialised elements.
  ///
  /// Throws: ShapeError for a negative size; MemoryError when there is not enough memory; DTypeError for bfloat16 on
  /// the CPU.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu,
                      Where where = {});

  /// Whether the handle has a tensor.
  bool defined() const { return impl_ != nullptr; }
  /// Whether both are handles of the same tensor.
  bool is(const Tensor& other) const { return impl_ == other.impl_; }
  const Shape& shape() const;                  ///< sizes, outermost first
  const Strides& strides() const;              ///< in elements
  int rank() const { return shape().rank(); }  ///< the number of dims
  /// The size of one dim.
  int64_t size(int64_t dim, Where where = {}) const;
  int64_t numel() const { return shape().numel(); }  ///< the number of elements
  DType dtype() const;                               ///< the elements' type
  Device device() const;                             ///< the elements' device
  /// Whether the elements are row-major in memory, without gaps.
  bool is_contiguous() const;

  // ---- Data ----

  /// The value of a tensor with one element, converted to T.
  ///
  /// Throws: ShapeError for any other number of elements.
  template <class T>
  T item(Where where = {}) const;
  /// The value of a tensor with one element, of any dtype, as a double.
  ///
  /// Throws: as above; ValueError for an int64 that a double cannot hold.
  double item(Where where = {}) const;
  /// The elements of a contiguous CPU tensor of dtype T. The span is valid while any tensor shares them.
  ///
  /// Throws: ShapeError, DeviceError or DTypeError for another tensor; the message proposes `contiguous()`,
  /// `to(Device::cpu)` or another T.
  template <class T>
  std::span<const T> data(Where where = {}) const;
  /// The elements for writing. The call counts as an in-place edit: backward throws if it needs the elements from
  /// before the edit. Later writes to the span are not counted, so call this again after each op.
  ///
  /// Throws: as data.
  template <class T>
  std::span<T> mutable_data(Where where = {});
  /// The elements in row-major order, converted to T, of any layout, dtype and device.
  template <class T>
  std::vector<T> to_vector(Where where = {}) const;

  /// This tensor when it is row-major, and a copy otherwise.
  ///
  /// Gradient: any number of times.
  Tensor contiguous(Where where = {}) const;
  /// A row-major copy with elements of its own.
  ///
  /// Gradient: any number of times.
  Tensor clone(Where where = {}) const;
  /// A copy of another dtype, or this tensor when it has that dtype. To an integer dtype, floating numbers are
  /// truncated, and must then be in its range. To bool, any number but 0 becomes true, also NaN.
  ///
  /// Gradient: any number of times, between floating dtypes.
  /// Throws: DTypeError for bfloat16 on the CPU.
  Tensor to(DType dtype, Where where = {}) const;
  /// A copy on another device, or this tensor when it is on that device.
  ///
  /// Gradient: any number of times.
  /// Throws: DeviceError if this build lacks the device or it does not answer; DTypeError for bfloat16 to the CPU.
  Tensor to(Device device, Where where = {}) const;

  /// Writes `source`, broadcast and converted, into this tensor's elements: an in-place edit. The two may overlap.
  ///
  /// Throws: AutogradError, unless under NoGrad, if this tensor or the source requires a gradient; ShapeError if
  /// several indices of this tensor share one element, as after expand().
  Tensor& copy_(const Tensor& source, Where where = {});
  /// Writes `value` into every element: an in-place edit.
  ///
  /// Throws: as copy_; DTypeError for a number that an integer dtype cannot hold.
  Tensor& fill_(Scalar value, Where where = {});

  // ---- Views. They share elements, and are differentiable any number of times ----

  /// The same elements in another shape. One size may be −1: it is computed from the others. Copies when the strides
  /// do not allow a view. Returns this tensor itself when it has the shape already.
  ///
  /// Throws: ShapeError unless the shape has as many elements.
  Tensor reshape(Shape shape, Where where = {}) const;
  /// Like reshape, but never copies, and never returns this tensor itself.
  ///
  /// Throws: ShapeError also if reshape would copy.
  Tensor view(Shape shape, Where where = {}) const;
  /// Dims start_dim … end_dim (inclusive) merged into one.
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1, Where where = {}) const;
  /// Two dims exchanged.
  ///
  /// Shapes: [B, N, H, D].transpose(1, 2) is [B, H, N, D].
  Tensor transpose(int64_t dim0, int64_t dim1, Where where = {}) const;
  /// Dim `i` of the result is dim `dims[i]` of this tensor.
  Tensor permute(const Shape& dims, Where where = {}) const;
  /// Indices start … start + length − 1 of `dim`. A negative start counts from the end.
  ///
  /// Throws: IndexError unless all exist.
  Tensor narrow(int64_t dim, int64_t start, int64_t length, Where where = {}) const;
  /// Indices start, start + step, … below stop. As in Python, negative start and stop count from the end, and are
  /// clamped to the range.
  ///
  /// Throws: ValueError unless step ≥ 1.
  Tensor slice(int64_t dim, int64_t start, int64_t stop, int64_t step = 1, Where where = {}) const;
  /// The elements at `index` of `dim`, without that dim. A negative index counts from the end.
  ///
  /// Throws: IndexError for an index that does not exist.
  Tensor select(int64_t dim, int64_t index, Where where = {}) const;
  /// The elements with indices i and i + offset in dim1 and dim2, or i − offset and i for a negative offset. The
  /// result lacks dim1 and dim2, and its last dim is i.
  ///
  /// Throws: ShapeError if dim1 and dim2 are the same.
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, Where where = {}) const;
  /// Removes `dim`, which must have size 1. (PyTorch leaves a dim of another size as it is, without an error.)
  Tensor squeeze(int64_t dim, Where where = {}) const;
  /// Inserts a dim of size 1, at position `dim` of the result.
  Tensor unsqueeze(int64_t dim, Where where = {}) const;
  /// Repeats dims of size 1, and new leading dims, without a copy. A size of −1 keeps the dim as it is. Never returns
  /// this tensor itself.
  Tensor expand(Shape shape, Where where = {}) const;
  /// Views of `size` indices each along `dim`. The last view may have fewer.
  ///
  /// Throws: ValueError unless size ≥ 1.
  std::vector<Tensor> split(int64_t size, int64_t dim = 0, Where where = {}) const;
  /// At most `chunks` views along `dim`, all of the same size except the last.
  ///
  /// Throws: ValueError unless chunks ≥ 1.
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0, Where where = {}) const;
  /// The last two dims exchanged: PyTorch's x.mT. (PyTorch's x.t() is for matrices, and returns vectors unchanged.)
  ///
  /// Throws: ShapeError for rank 0 and 1.
  Tensor t(Where where = {}) const;
  /// Index `index` of the first dim, without that dim. (In C++20 `x[0, 1]` is a comma expression and means `x[1]`;
  /// compilers warn. Write `x[{0, 1}]`.)
  ///
  /// Throws: IndexError for an index that does not exist.
  Tensor operator[](Index index) const;
  /// One index for each dim, from the first: `x[{0, Slice{1, 3}}]`, `x[{ellipsis, 0}]`, `x[{newaxis}]`. The remaining
  /// dims are kept whole.
  ///
  /// Throws: IndexError for more indices than dims, and for an index that does not exist.
  Tensor operator[](std::initializer_list<Index> indices) const;

  // ---- Gradients ----

  /// Whether backward reaches this tensor. set_requires_grad decides it for a leaf. The result of a recorded op
  /// requires a gradient when one of the op's inputs does.
  bool requires_grad() const;
  /// Makes a leaf require a gradient or not, and returns it. While it does not, backward skips it, also in tapes that
  /// were recorded before. When it requires one again, those tapes reach it again, and it still has its old gradient.
  ///
  /// Throws: AutogradError on the result of an op; DTypeError unless the dtype is floating.
  Tensor& set_requires_grad(bool requires_grad = true, Where where = {});
  /// Whether no recorded op made this tensor.
  bool is_leaf() const;
  /// The gradient that backward accumulated here; undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient. An undefined tensor drops it.
  ///
  /// Throws: AutogradError when this tensor does not require a gradient; ShapeError for a gradient of another shape
  /// or dtype; DeviceError for one on another device.
  void set_grad(Tensor grad, Where where = {});
  /// Makes backward keep `grad()` also on a tensor that is not a leaf.
  ///
  /// Throws: AutogradError when this tensor does not require a gradient.
  void retain_grad(Where where = {});
  /// Calls `hook` with this tensor's gradient once it is complete in a backward pass. A defined result of the hook
  /// replaces the gradient; a hook must not edit its argument. It stays until `remove()` of the handle, which may be
  /// ignored. A hook that captures this tensor by value keeps it in memory: capture a reference, or its `detach()`.
  ///
  /// Throws: AutogradError when this tensor does not require a gradient. Backward throws ShapeError for a hook's
  /// result of another shape or dtype, and DeviceError for one on another device.
  RemovableHandle register_hook(std::function<Tensor(const Tensor&)> hook, Where where = {});
  /// The same elements, without history.
  Tensor detach(Where where = {}) const;

  /// The same as `linnet::backward`, which takes options too.
  void backward(Where where = {}) const;

  // ---- Ops that are members in PyTorch's C++ too. The functions of these names in ops/ document them ----

  Tensor add(const Tensor& other, Where where = {}) const;
  Tensor add(Scalar other, Where where = {}) const;
  Tensor sub(const Tensor& other, Where where = {}) const;
  Tensor sub(Scalar other, Where where = {}) const;
  Tensor mul(const Tensor& other, Where where = {}) const;
  Tensor mul(Scalar other, Where where = {}) const;
  Tensor div(const Tensor& other, Where where = {}) const;
  Tensor div(Scalar other, Where where = {}) const;
  Tensor remainder(const Tensor& other, Where where = {}) const;
  Tensor remainder(Scalar other, Where where = {}) const;
  Tensor pow(const Tensor& other, Where where = {}) const;
  Tensor pow(Scalar other, Where where = {}) const;
  Tensor atan2(const Tensor& other, Where where = {}) const;
  Tensor lerp(const Tensor& end, const Tensor& weight, Where where = {}) const;
  Tensor lerp(const Tensor& end, Scalar weight, Where where = {}) const;
  Tensor maximum(const Tensor& other, Where where = {}) const;
  Tensor maximum(Scalar other, Where where = {}) const;
  Tensor minimum(const Tensor& other, Where where = {}) const;
  Tensor minimum(Scalar other, Where where = {}) const;
  Tensor eq(const Tensor& other, Where where = {}) const;
  Tensor eq(Scalar other, Where where = {}) const;
  Tensor ne(const Tensor& other, Where where = {}) const;
  Tensor ne(Scalar other, Where where = {}) const;
  Tensor lt(const Tensor& other, Where where = {}) const;
  Tensor lt(Scalar other, Where where = {}) const;
  Tensor le(const Tensor& other, Where where = {}) const;
  Tensor le(Scalar other, Where where = {}) const;
  Tensor gt(const Tensor& other, Where where = {}) const;
  Tensor gt(Scalar other, Where where = {}) const;
  Tensor ge(const Tensor& other, Where where = {}) const;
  Tensor ge(Scalar other, Where where = {}) const;
  Tensor exp(Where where = {}) const;
  Tensor expm1(Where where = {}) const;
  Tensor log(Where where = {}) const;
  Tensor log1p(Where where = {}) const;
  Tensor log2(Where where = {}) const;
  Tensor log10(Where where = {}) const;
  Tensor sqrt(Where where = {}) const;
  Tensor rsqrt(Where where = {}) const;
  Tensor abs(Where where = {}) const;
  Tensor sign(Where where = {}) const;
  Tensor floor(Where where = {}) const;
  Tensor ceil(Where where = {}) const;
  Tensor round(Where where = {}) const;
  Tensor trunc(Where where = {}) const;
  Tensor sin(Where where = {}) const;
  Tensor cos(Where where = {}) const;
  Tensor tan(Where where = {}) const;
  Tensor asin(Where where = {}) const;
  Tensor acos(Where where = {}) const;
  Tensor atan(Where where = {}) const;
  Tensor sinh(Where where = {}) const;
  Tensor cosh(Where where = {}) const;
  Tensor square(Where where = {}) const;
  Tensor reciprocal(Where where = {}) const;
  Tensor erf(Where where = {}) const;
  Tensor tanh(Where where = {}) const;
  Tensor sigmoid(Where where = {}) const;
  Tensor relu(Where where = {}) const;
  Tensor neg(Where where = {}) const;
  Tensor isnan(Where where = {}) const;
  Tensor isinf(Where where = {}) const;
  Tensor isfinite(Where where = {}) const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}, Where where = {}) const;
  Tensor masked_fill(const Tensor& mask, Scalar value, Where where = {}) const;
  Tensor sum(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor prod(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor mean(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor max(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor min(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  template <std::integral Dim>
  ValuesAndIndices max(Dim dim, KeepDim keepdim = false, Where where = {}) const;
  template <std::integral Dim>
  ValuesAndIndices min(Dim dim, KeepDim keepdim = false, Where where = {}) const;
  Tensor median(Where where = {}) const;
  ValuesAndIndices median(int64_t dim, KeepDim keepdim = false, Where where = {}) const;
  Tensor logsumexp(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor any(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor all(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor var(const Shape& dims = {}, double correction = 1, KeepDim keepdim = false, Where where = {}) const;
  template <std::same_as<bool> Bool>
  Tensor var(const Shape& dims, Bool) const = delete;
  Tensor norm(double p = 2, const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor norm(std::initializer_list<int64_t> dims) const = delete;
  Tensor argmax(int64_t dim, KeepDim keepdim = false, Where where = {}) const;
  Tensor argmin(int64_t dim, KeepDim keepdim = false, Where where = {}) const;
  Tensor cumsum(int64_t dim, Where where = {}) const;
  Tensor cumprod(int64_t dim, Where where = {}) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {}, const Tensor& append = {},
              Where where = {}) const;
  Tensor softmax(int64_t dim, Where where = {}) const;
  Tensor log_softmax(int64_t dim, Where where = {}) const;
  Tensor matmul(const Tensor& other, Where where = {}) const;
  Tensor outer(const Tensor& other, Where where = {}) const;
  ValuesAndIndices sort(int64_t dim = -1, bool descending = false, Where where = {}) const;
  ValuesAndIndices topk(int64_t k, int64_t dim = -1, bool largest = true, Where where = {}) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                 Where where = {}) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                Where where = {}) const;
  Tensor index_select(int64_t dim, const Tensor& index, Where where = {}) const;
  Tensor gather(int64_t dim, const Tensor& index, Where where = {}) const;
  Tensor take_along_dim(const Tensor& indices, std::optional<int64_t> dim = {}, Where where = {}) const;
  Tensor scatter(int64_t dim, const Tensor& index, const Tensor& src, Where where = {}) const;
  Tensor scatter(int64_t dim, const Tensor& index, Scalar value, Where where = {}) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src, Where where = {}) const;
  Tensor index_put(const std::vector<Tensor>& indices, const Tensor& values, bool accumulate = false,
                   Where where = {}) const;
  Tensor masked_select(const Tensor& mask, Where where = {}) const;
  Tensor nonzero(Where where = {}) const;
  UniqueElements unique(Where where = {}) const;
  Tensor bincount(const Tensor& weights = {}, int64_t minlength = 0, Where where = {}) const;
  Tensor flip(const Shape& dims, Where where = {}) const;
  Tensor roll(const Shape& shifts, const Shape& dims = {}, Where where = {}) const;
  Tensor repeat(const Shape& sizes, Where where = {}) const;
  Tensor tile(const Shape& sizes, Where where = {}) const;
  Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dim = {}, Where where = {}) const;
  Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim = {}, Where where = {}) const;
  Tensor tril(int64_t diagonal = 0, Where where = {}) const;
  Tensor triu(int64_t diagonal = 0, Where where = {}) const;
  Tensor diag(int64_t diagonal = 0, Where where = {}) const;
  Tensor trace(Where where = {}) const;

  // ---- Calls in the style of other libraries. They do not compile, and the message says what to write instead ----

  using RefusedMembers::operator[], RefusedMembers::reshape, RefusedMembers::expand, RefusedMembers::permute,
      RefusedMembers::view, RefusedMembers::size, RefusedMembers::flip, RefusedMembers::to, RefusedMembers::argmax,
      RefusedMembers::argmin, RefusedMembers::squeeze, RefusedMembers::repeat, RefusedMembers::backward;
  template <std::same_as<bool> Bool>
  explicit operator Bool() const {
    static_assert(
        detail::refused<Bool>,
        "a tensor is not true or false: it has one truth per element. Write all(x).item<bool>() or "
        "any(x).item<bool>(), x.defined() for whether there is a tensor, and x.is(y) for whether two are one");
    return false;
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  void operator=(Number) & {
    static_assert(detail::refused<Number>,
                  "a name takes another tensor, not a number: write x.fill_(5) for all elements, or x = scalar(5)");
  }

 private:
  friend struct detail::TensorAccess;
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& get() const;
  const void* host_data(DType dtype, Where where) const;
  void check_editable() const;

  std::shared_ptr<Impl> impl_;
};

/// Prints exactly what `str` of the same array returns in NumPy 2.4: shortest digits, at most 8 after the point,
/// aligned columns and lines of 75 characters. Above 1000 elements, a long dim shows 3 elements at each end.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
/// The string that `operator<<` prints.
std::string to_string(const Tensor& tensor);

/// Sets the precision of matrix products of float32 tensors on a device, from the next op on, in all threads.
///
/// Dtypes: float32; float64 is not affected.
/// Throws: DeviceError for a precision that the device does not have. A CPU has float32 only.
void set_precision(Precision precision, Device device, Where where = {});

}  // namespace linnet
