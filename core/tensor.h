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
#include <linnet/core/refused_members.h>
#include <linnet/core/shape.h>
#include <linnet/core/where.h>

namespace linnet {

struct NumberOperand;
struct Operand;
struct ValuesAndIndices;

namespace detail {
struct TensorAccess;  // what ops and kernels see beside this: core/device/kernel_access.h
}

/// An n-dimensional array: a handle that shares its elements when copied (`clone()` copies them). Views (reshape,
/// transpose, …) share elements too. Shapes below are written `[B, N]`; a negative dim counts from the end.
///
/// Two threads may use different tensors at once, and read the same one. Making a view costs no copy; what copies is
/// said to, in one pass over the elements.
///
/// Where dims or shapes do not fit, what is called here throws ShapeError, and so it does for a dim that does not
/// exist; use of an undefined tensor throws ValueError.
class Tensor : public detail::RefusedMembers {
 public:
  /// No tensor: `defined()` is false, and any other use throws.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// What is assigned to an expression, as in `x[0] = y` and `x[0] = 1`, is written into its elements, as by `copy_`
  /// and `fill_`.
  Tensor& operator=(Operand source) &&;
  Tensor& operator=(NumberOperand value) &&;

  /// A tensor with uninitialised elements, row-major. Throws ShapeError for a negative size, MemoryError when there
  /// is not room, DTypeError for bfloat16 on the CPU.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu,
                      Where where = {});

  /// Whether there is a tensor behind the handle.
  bool defined() const { return impl_ != nullptr; }
  /// Whether both are handles of one tensor.
  bool is(const Tensor& other) const { return impl_ == other.impl_; }
  const Shape& shape() const;                  ///< sizes, outermost first
  const Strides& strides() const;              ///< in elements
  int rank() const { return shape().rank(); }  ///< how many dims
  /// The size of one dimension. Throws ShapeError when it does not exist.
  int64_t size(int64_t dim, Where where = {}) const;
  int64_t numel() const { return shape().numel(); }  ///< how many elements
  DType dtype() const;                               ///< of the elements
  Device device() const;                             ///< where they are
  /// Whether the elements lie row-major and without gaps.
  bool is_contiguous() const;

  // ---- Data ----

  /// The value of a tensor with one element, converted to T. Throws ShapeError for any other.
  template <class T>
  T item(Where where = {}) const;
  /// The same as a double, of any dtype. Throws ValueError for an int64 that a double cannot hold.
  double item(Where where = {}) const;
  /// The elements of a contiguous CPU tensor of dtype T, valid while any tensor shares them. Throws ShapeError,
  /// DeviceError or DTypeError otherwise, saying whether `contiguous()`, `to(Device::cpu)` or another T is wanted.
  template <class T>
  std::span<const T> data(Where where = {}) const;
  /// The same for writing. Counts as an in-place edit: a tensor that backward still needs is caught there. Take it
  /// anew after each op, since it is this call that counts, not the writing.
  template <class T>
  std::span<T> mutable_data(Where where = {});
  /// The elements in row-major order, converted to T, whatever layout, dtype or device.
  template <class T>
  std::vector<T> to_vector(Where where = {}) const;

  /// This tensor when it is row-major already, a copy otherwise. Differentiable.
  Tensor contiguous(Where where = {}) const;
  /// A row-major copy with elements of its own. Differentiable.
  Tensor clone(Where where = {}) const;
  /// Converted to another dtype (this tensor when it has it already). Differentiable between floating dtypes. Throws
  /// DTypeError for bfloat16 on the CPU.
  Tensor to(DType dtype, Where where = {}) const;
  /// Copied to another device (this tensor when it is there already). Differentiable. Throws DeviceError when the
  /// device was not built or does not answer, and DTypeError for bfloat16 to the CPU.
  Tensor to(Device device, Where where = {}) const;

  /// Writes `source`, broadcast and converted, into this tensor's elements. An in-place edit: refused on a tensor
  /// that the tape tracks, unless under NoGrad, by an AutogradError, as is a source that requires a gradient; and by
  /// a ShapeError on one of which expand() made several elements from one. The source may overlap.
  Tensor& copy_(const Tensor& source, Where where = {});
  /// Writes `value` into every element. An in-place edit, like `copy_`. Throws DTypeError for a number that an
  /// integer dtype cannot hold.
  Tensor& fill_(Scalar value, Where where = {});

  // ---- Views: they share elements, and are differentiable ----

  /// The same elements in another shape; one size may be −1, to be derived. Copies when the layout does not allow a
  /// view. Throws ShapeError unless the shape has as many elements.
  Tensor reshape(Shape shape, Where where = {}) const;
  /// The same, but throws ShapeError where it would have to copy.
  Tensor view(Shape shape, Where where = {}) const;
  /// Dims start … end (inclusive) made one.
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1, Where where = {}) const;
  /// Two dims exchanged: [B, N, H, D].transpose(1, 2) is [B, H, N, D].
  Tensor transpose(int64_t dim0, int64_t dim1, Where where = {}) const;
  /// Dim `i` of the result is dim `dims[i]` of this tensor.
  Tensor permute(const Shape& dims, Where where = {}) const;
  /// Indices start … start + length − 1 of `dim`. Throws IndexError unless all exist.
  Tensor narrow(int64_t dim, int64_t start, int64_t length, Where where = {}) const;
  /// Indices start, start + step, … below stop, as Python slices them (negative start and stop count from the end,
  /// out-of-range ones are clamped). Throws ValueError unless step ≥ 1.
  Tensor slice(int64_t dim, int64_t start, int64_t stop, int64_t step = 1, Where where = {}) const;
  /// Index `index` of `dim`, which disappears; a negative one counts from the end. Throws IndexError.
  Tensor select(int64_t dim, int64_t index, Where where = {}) const;
  /// The elements whose indices of dim1 and dim2 are i and i + offset, or for a negative offset i − offset and i:
  /// dim1 and dim2 disappear, and i is the last dim of the result. Throws ShapeError where dim1 and dim2 are one.
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, Where where = {}) const;
  /// Without `dim`, which must have size 1.
  Tensor squeeze(int64_t dim, Where where = {}) const;
  /// With a dim of size 1 at `dim` of the result.
  Tensor unsqueeze(int64_t dim, Where where = {}) const;
  /// Dims of size 1 (and new leading ones) repeated without a copy; −1 keeps a size.
  Tensor expand(Shape shape, Where where = {}) const;
  /// Parts of `size` along `dim`; the last one may be smaller. Throws ValueError unless size ≥ 1.
  std::vector<Tensor> split(int64_t size, int64_t dim = 0, Where where = {}) const;
  /// At most `chunks` parts along `dim`, of one size but for the last. Throws ValueError unless chunks ≥ 1.
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0, Where where = {}) const;
  /// The last two dims exchanged. Throws ShapeError for rank 0 and 1.
  Tensor t(Where where = {}) const;
  /// Index `index` of the first dim, which disappears. Throws IndexError where it does not exist. (`x[0, 1]` is C++'s
  /// own comma, of which compilers warn: it is `x[1]`. Write `x[{0, 1}]`.)
  Tensor operator[](Index index) const;
  /// One index for each dim, from the first on: `x[{0, Slice{1, 3}}]`, `x[{ellipsis, 0}]`, `x[{newaxis}]`. Dims that
  /// are left are whole. Throws IndexError for more indices than dims, and for one that does not exist.
  Tensor operator[](std::initializer_list<Index> indices) const;

  // ---- Gradients ----

  /// Whether backward reaches this tensor: set on a leaf, or inherited from an op's inputs.
  bool requires_grad() const;
  /// Makes a leaf track gradients, or stops it, and returns it. While it is stopped, backward passes it by, also in
  /// tapes from before; told to track again, it is in them as it was, with the gradient that it had. Throws
  /// AutogradError on a tensor that an op made, and DTypeError unless the dtype is floating.
  Tensor& set_requires_grad(bool requires_grad = true, Where where = {});
  /// True for tensors that no recorded op made.
  bool is_leaf() const;
  /// The gradient that backward accumulated here; undefined before the first backward.
  Tensor grad() const;
  /// Replaces the gradient, or drops it with an undefined tensor. Throws AutogradError when it is given to a tensor
  /// that does not require one, ShapeError for one of another shape or dtype, DeviceError for one on another device.
  void set_grad(Tensor grad, Where where = {});
  /// Keeps `grad()` on a tensor that is no leaf. Throws AutogradError when it does not require one.
  void retain_grad(Where where = {});
  /// Calls `hook` with this tensor's gradient once it is complete in a backward pass; a defined result replaces it.
  /// Throws AutogradError when the tensor does not require one; backward throws ShapeError for a result of another
  /// shape or dtype, and DeviceError for one on another device.
  void register_hook(std::function<Tensor(const Tensor&)> hook, Where where = {});
  /// The same elements, without history.
  Tensor detach(Where where = {}) const;

  /// `linnet::backward` of this tensor, which takes options too.
  void backward(Where where = {}) const;

  // ---- Ops that are members in PyTorch's C++ too. Each is the function of its name in ops/, which says more ----

  Tensor add(const Tensor& other, Where where = {}) const;
  Tensor add(Scalar other, Where where = {}) const;
  Tensor sub(const Tensor& other, Where where = {}) const;
  Tensor sub(Scalar other, Where where = {}) const;
  Tensor mul(const Tensor& other, Where where = {}) const;
  Tensor mul(Scalar other, Where where = {}) const;
  Tensor div(const Tensor& other, Where where = {}) const;
  Tensor div(Scalar other, Where where = {}) const;
  Tensor pow(const Tensor& other, Where where = {}) const;
  Tensor pow(Scalar other, Where where = {}) const;
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
  Tensor log(Where where = {}) const;
  Tensor sqrt(Where where = {}) const;
  Tensor rsqrt(Where where = {}) const;
  Tensor abs(Where where = {}) const;
  Tensor sign(Where where = {}) const;
  Tensor sin(Where where = {}) const;
  Tensor cos(Where where = {}) const;
  Tensor square(Where where = {}) const;
  Tensor reciprocal(Where where = {}) const;
  Tensor erf(Where where = {}) const;
  Tensor tanh(Where where = {}) const;
  Tensor sigmoid(Where where = {}) const;
  Tensor relu(Where where = {}) const;
  Tensor neg(Where where = {}) const;
  Tensor isnan(Where where = {}) const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}, Where where = {}) const;
  Tensor masked_fill(const Tensor& mask, Scalar value, Where where = {}) const;
  Tensor sum(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor mean(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor max(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  Tensor min(const Shape& dims = {}, KeepDim keepdim = false, Where where = {}) const;
  template <std::integral Dim>
  ValuesAndIndices max(Dim dim, KeepDim keepdim = false, Where where = {}) const;
  template <std::integral Dim>
  ValuesAndIndices min(Dim dim, KeepDim keepdim = false, Where where = {}) const;
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
  Tensor softmax(int64_t dim, Where where = {}) const;
  Tensor log_softmax(int64_t dim, Where where = {}) const;
  Tensor matmul(const Tensor& other, Where where = {}) const;
  ValuesAndIndices sort(int64_t dim = -1, bool descending = false, Where where = {}) const;
  ValuesAndIndices topk(int64_t k, int64_t dim = -1, bool largest = true, Where where = {}) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                Where where = {}) const;
  Tensor index_select(int64_t dim, const Tensor& index, Where where = {}) const;
  Tensor gather(int64_t dim, const Tensor& index, Where where = {}) const;
  Tensor tril(int64_t diagonal = 0, Where where = {}) const;
  Tensor triu(int64_t diagonal = 0, Where where = {}) const;

  // ---- Lines of other libraries that are written otherwise here ----

  template <std::same_as<bool> Bool>
  explicit operator Bool() const {
    static_assert(
        detail::refused<Bool>,
        "a tensor is not true or false: it has one truth per element. Write all(x).item<bool>() or "
        "any(x).item<bool>(), x.defined() for whether there is a tensor, and x.is(y) for whether two are one");
    return false;
  }
  template <std::same_as<Tensor> Mask>
  void operator[](const Mask&) const {
    static_assert(detail::refused<Mask>,
                  "x[tensor] is not taken: write index_select(x, dim, index) for an index, and where(mask, a, b) or "
                  "masked_fill(x, mask, value) for a mask");
  }
  template <std::integral... Sizes>
  void reshape(int64_t, int, Sizes...) const {
    static_assert(detail::refused<Sizes...>, "sizes stand in braces: write x.reshape({2, 3})");
  }
  template <std::integral... Sizes>
  void view(int64_t, int, Sizes...) const {
    static_assert(detail::refused<Sizes...>, "sizes stand in braces: write x.view({2, 3})");
  }
  template <std::integral... Sizes>
  void expand(int64_t, int, Sizes...) const {
    static_assert(detail::refused<Sizes...>, "sizes stand in braces: write x.expand({2, 3})");
  }
  template <std::integral... Dims>
  void permute(int64_t, int, Dims...) const {
    static_assert(detail::refused<Dims...>, "dims stand in braces: write x.permute({0, 2, 1})");
  }
  template <std::same_as<bool>... Nothing>
  void size() const {
    static_assert(detail::refused<Nothing...>, "the sizes are x.shape(), and that of one dim is x.size(dim)");
  }
  template <class... Nothing>
  void squeeze() const {
    static_assert(detail::refused<Nothing...>, "the dim is named: write x.squeeze(dim), or x.reshape(…)");
  }
  template <class... Nothing>
  void argmax() const {
    static_assert(detail::refused<Nothing...>, "the dim is named: write x.argmax(dim), or x.flatten().argmax(0)");
  }
  template <class... Nothing>
  void argmin() const {
    static_assert(detail::refused<Nothing...>, "the dim is named: write x.argmin(dim), or x.flatten().argmin(0)");
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

/// The tensor of an operator and the line that it is on: a call can take the line as a last argument, an
/// operator takes it with the conversion of its operand.
struct Operand {
  const Tensor& tensor;
  Where where;

  Operand(const Tensor& tensor_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : tensor(tensor_), where(where_) {}
};
/// The same of a number.
struct NumberOperand {
  Scalar value;
  Where where;

  NumberOperand(Scalar value_, Where where_ = {})  // NOLINT(google-explicit-constructor)
      : value(value_), where(where_) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  NumberOperand(T value_, Where where_ = {})  // NOLINT(google-explicit-constructor): converting is its task
      : value(value_), where(where_) {}
};

/// Exactly what `str` of the same array gives in NumPy (2.4): shortest digits, at most 8 behind the point, columns
/// aligned, lines of 75; above 1000 elements, 3 at each end of a long dimension.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
/// The same as a string.
std::string to_string(const Tensor& tensor);

/// What tensors on a device take.
MemoryStats memory_stats(Device device = Device::cpu, Where where = {});
/// Makes the peak count start anew from what is live now.
void reset_peak_memory(Device device = Device::cpu, Where where = {});
/// Gives cached memory back to the system.
void release_cached_memory(Device device = Device::cpu, Where where = {});

/// Sets how matrix products of float32 tensors on a device are made, from the next op on, in all threads. float64 is
/// not affected. Throws DeviceError for a way that the device does not have: a CPU has float32 alone.
void set_precision(Precision precision, Device device, Where where = {});

}  // namespace linnet
