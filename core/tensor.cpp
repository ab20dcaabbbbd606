#include <linnet/core/tensor.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <linnet/core/autograd/node.h>
#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/autograd/tensor_impl.h>
#include <linnet/core/error.h>

namespace linnet {

// ---- Storage ----

Storage::Storage(int64_t size, Device where) : data(backend(where).allocate(size)), bytes(size), device(where) {}

Storage::Storage(void* elements, std::shared_ptr<void> owner)
    : data(elements), device(Device::cpu), keep_alive(std::move(owner)), borrowed(true) {}

Storage::~Storage() {
  if (!borrowed) backend(device).deallocate(data, bytes);
}

// ---- Making tensors ----

namespace {

/// Throws MemoryError if the product overflows, so that no tensor gets less memory than its shape needs.
int64_t bytes_of(const Shape& shape, DType dtype) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    throw ShapeError(fmt::format("shape {} has a negative size", to_string(shape)));
  }
  if (const std::optional<int64_t> bytes = checked_product(shape, size_of(dtype))) return *bytes;
  throw MemoryError(fmt::format("shape {} has more bytes than 64 bits can count", to_string(shape)));
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device, Where where) {
  const Call call("empty", where);
  if (dtype == DType::bfloat16 && device == Device::cpu) {
    throw DTypeError(
        "bfloat16 is storage for GPUs alone; use float32 on the CPU, to(DType::float32) before to(Device::cpu)");
  }
  auto storage = std::make_shared<Storage>(bytes_of(shape, dtype), device);
  return Tensor(
      std::make_shared<Impl>(Impl{std::move(storage), 0, shape, contiguous_strides(shape), dtype, nullptr}));
}

Tensor Tensor::detach(Where where) const {
  const Call call("detach", where);
  return detail::as_strided(*this, shape(), strides(), 0);
}

// ---- Properties ----

Tensor::Impl& Tensor::get() const {
  if (!impl_)
    throw ValueError("the tensor is undefined: never assigned, or the gradient of a tensor that no backward reached");
  return *impl_;
}

const Shape& Tensor::shape() const { return get().shape; }
const Strides& Tensor::strides() const { return get().strides; }
DType Tensor::dtype() const { return get().dtype; }
Device Tensor::device() const { return get().storage->device; }

int64_t Tensor::size(int64_t dim, Where where) const {
  const Call call("size", where);
  return shape()[normalise_dim(dim, rank())];
}

bool Tensor::is_contiguous() const {
  const Impl& impl = get();
  if (impl.shape.numel() == 0) return true;
  int64_t expected = 1;
  for (int d = impl.shape.rank() - 1; d >= 0; --d) {
    if (impl.shape[d] != 1 && impl.strides[d] != expected) return false;
    expected *= impl.shape[d];
  }
  return true;
}

// ---- For ops and kernels ----

View detail::view(const Tensor& x) {
  const TensorAccess::Impl& impl = TensorAccess::impl(x);
  char* base = static_cast<char*>(impl.storage->data);
  return {base + impl.offset * size_of(impl.dtype), impl.dtype, impl.shape.rank(), impl.shape.data(),
          impl.strides.data()};
}

Tensor detail::as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset) {
  const TensorAccess::Impl& impl = TensorAccess::impl(x);
  return TensorAccess::make({impl.storage, impl.offset + offset, shape, strides, impl.dtype, nullptr});
}

Tensor detail::narrow(const Tensor& x, int dim, int64_t start, int64_t length, int64_t step) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int64_t offset = start * strides[dim];
  shape[dim] = length;
  if (length > 1) strides[dim] *= step;  // otherwise the step does not matter, and the product may overflow
  return as_strided(x, shape, strides, offset);
}

Tensor detail::whole_storage_as(const Tensor& x, const Shape& shape) {
  const TensorAccess::Impl& impl = TensorAccess::impl(x);
  if (impl.storage->borrowed || impl.storage->bytes != shape.numel() * size_of(impl.dtype)) return {};
  return as_strided(x, shape, contiguous_strides(shape), -impl.offset);
}

Tensor detail::borrow(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive) {
  bytes_of(shape, dtype);
  auto storage = std::make_shared<Storage>(data, std::move(keep_alive));
  return TensorAccess::make({std::move(storage), 0, shape, contiguous_strides(shape), dtype, nullptr});
}

bool detail::owns_elements_alone(const Tensor& x) {
  const std::shared_ptr<Storage>& storage = TensorAccess::impl(x).storage;
  return TensorAccess::is_only_handle(x) && storage.use_count() == 1 && !storage->borrowed;
}

uint64_t detail::version(const Tensor& x) {
  return TensorAccess::impl(x).storage->version.load(std::memory_order_relaxed);
}

void detail::bump_version(const Tensor& x) {
  TensorAccess::impl(x).storage->version.fetch_add(1, std::memory_order_relaxed);
  Recording::note_edit(x);
}

const std::shared_ptr<Node>& detail::node(const Tensor& x) {
  static const auto& none = *new std::shared_ptr<Node>;  // never destroyed: static tensors may still use it
  const std::shared_ptr<Node>& node = TensorAccess::impl(x).node;
  return node && node->frozen ? none : node;
}

void detail::set_node(const Tensor& x, std::shared_ptr<Node> node) { TensorAccess::impl(x).node = std::move(node); }

// ---- Data ----

const void* Tensor::host_data(DType wanted, Where where) const {
  const Call call("data", where);
  if (dtype() != wanted) {
    throw DTypeError(fmt::format("the tensor is {}, not {}; use to(DType::{}) first", name_of(dtype()),
                                 name_of(wanted), wanted == DType::boolean ? "boolean" : name_of(wanted)));
  }
  if (device() != Device::cpu) {
    throw DeviceError(fmt::format("the tensor is on {}; use to(Device::cpu) first", name_of(device())));
  }
  if (!is_contiguous()) {
    throw ShapeError(fmt::format("the tensor of shape {} is not row-major (strides {}); use contiguous() first",
                                 to_string(shape()), to_string(strides())));
  }
  return detail::view(*this).data;
}

template <class T>
std::span<const T> Tensor::data(Where where) const {
  return {static_cast<const T*>(host_data(dtype_of<T>, where)), static_cast<size_t>(numel())};
}

template <class T>
std::span<T> Tensor::mutable_data(Where where) {
  const Call call("mutable_data", where);
  void* elements = const_cast<void*>(host_data(dtype_of<T>, where));
  check_editable();
  detail::bump_version(*this);
  return {static_cast<T*>(elements), static_cast<size_t>(numel())};
}

template <class T>
std::vector<T> Tensor::to_vector(Where where) const {
  const Call call("to_vector", where);
  const NoGrad no_grad;
  const Tensor dense = to(computed_in(dtype())).to(Device::cpu).to(dtype_of<T>).contiguous();
  const T* elements = static_cast<const T*>(detail::view(dense).data);
  return std::vector<T>(elements, elements + dense.numel());
}

template <class T>
T Tensor::item(Where where) const {
  const Call call("item", where);
  if (numel() != 1) {
    throw ShapeError(
        fmt::format("only a tensor with one element has an item; this one has shape {}, and to_vector() gives all",
                    to_string(shape())));
  }
  return to_vector<T>().front();
}

double Tensor::item(Where where) const {
  if (dtype() != DType::int64) return item<double>(where);
  const Call call("item", where);
  const int64_t exact = item<int64_t>();
  if (constexpr int64_t kLargest = int64_t{1} << 53; exact < -kLargest || exact > kLargest) {
    throw ValueError(fmt::format("a double cannot hold {}; use item<int64_t>()", exact));
  }
  return static_cast<double>(exact);
}

template std::span<const float> Tensor::data(Where) const;
template std::span<const double> Tensor::data(Where) const;
template std::span<const int32_t> Tensor::data(Where) const;
template std::span<const int64_t> Tensor::data(Where) const;
template std::span<const bool> Tensor::data(Where) const;
template std::span<float> Tensor::mutable_data(Where);
template std::span<double> Tensor::mutable_data(Where);
template std::span<int32_t> Tensor::mutable_data(Where);
template std::span<int64_t> Tensor::mutable_data(Where);
template std::span<bool> Tensor::mutable_data(Where);
template std::vector<float> Tensor::to_vector(Where) const;
template std::vector<double> Tensor::to_vector(Where) const;
template std::vector<int32_t> Tensor::to_vector(Where) const;
template std::vector<int64_t> Tensor::to_vector(Where) const;
template std::vector<bool> Tensor::to_vector(Where) const;
template float Tensor::item<float>(Where) const;
template double Tensor::item<double>(Where) const;
template int32_t Tensor::item<int32_t>(Where) const;
template int64_t Tensor::item<int64_t>(Where) const;
template bool Tensor::item<bool>(Where) const;

void Tensor::check_editable() const {
  if (requires_grad() && grad_enabled()) {
    throw AutogradError(
        "an in-place edit of a tensor that requires grad would not be seen by backward; edit it under "
        "NoGrad, or edit detach() or clone() of it");
  }
  for (int d = 0; d < rank(); ++d) {
    if (shape()[d] > 1 && strides()[d] == 0) {
      throw ShapeError(
          fmt::format("a tensor of shape {} with stride 0 in dim {}, as expand() makes it, has several indices "
                      "for one element; edit a clone() of it",
                      to_string(shape()), d));
    }
  }
}

namespace {

/// The addresses from the first byte of a tensor to the last one.
std::pair<uintptr_t, uintptr_t> ends_of(const View& x) {
  int64_t below = 0, above = 0;  // element 0
  for (int d = 0; d < x.rank; ++d) {
    const int64_t last = (x.shape[d] - 1) * x.strides[d];
    (last < 0 ? below : above) += last;
  }
  const auto element = reinterpret_cast<uintptr_t>(x.data);
  const auto at = [&](int64_t i) { return element + static_cast<uintptr_t>(i * size_of(x.dtype)); };
  return {at(below), at(above + 1) - 1};
}

/// Whether two tensors of one device may have elements in common, as those that borrow the same memory do.
bool overlap(const View& a, const View& b) {
  const auto [first_of_a, last_of_a] = ends_of(a);
  const auto [first_of_b, last_of_b] = ends_of(b);
  return first_of_a <= last_of_b && first_of_b <= last_of_a;
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source, Where where) {
  const Call call("copy_", where);
  check_editable();
  if (source.requires_grad() && grad_enabled()) {
    throw AutogradError("the source requires grad, and an in-place copy records no backward; copy source.detach()");
  }
  const NoGrad no_grad;
  Tensor expanded = source.to(device());
  // Without an expansion nothing is allocated, so that a load that has begun to copy cannot run out of memory.
  if (expanded.shape() != shape()) expanded = expanded.expand(shape());
  if (overlap(detail::view(*this), detail::view(expanded))) expanded = expanded.clone();
  backend(device()).copy(detail::view(*this), detail::view(expanded));
  detail::bump_version(*this);
  return *this;
}

Tensor& Tensor::fill_(Scalar value, Where where) {
  const Call call("fill_", where);
  check_editable();
  detail::check_number(value, dtype());
  backend(device()).fill(detail::view(*this), value);
  detail::bump_version(*this);
  return *this;
}

// ---- Memory ----

MemoryStats memory_stats(Device device, Where where) {
  const Call call("memory_stats", where);
  return backend(device).memory_stats();
}

void reset_peak_memory(Device device, Where where) {
  const Call call("reset_peak_memory", where);
  backend(device).reset_peak();
}

void release_cached_memory(Device device, Where where) {
  const Call call("release_cached_memory", where);
  backend(device).release_cached();
}

void set_precision(Precision precision, Device device, Where where) {
  const Call call("set_precision", where);
  backend(device).set_precision(precision);
}

}  // namespace linnet
