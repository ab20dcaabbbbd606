#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/device/transfer.cuh>

/// Copies, comparisons and `where`; on the CPU these are in ops/cpu/array/elementwise.cpp.

namespace linnet::cuda {
namespace {

/// Elements have type E and are compared as T; see elementwise.cu.
template <class E, class T = ComputedIn<E>>
void compare_typed(Compare op, const View& out, const View& a, const View& b) {
  switch (op) {
    case Compare::eq: return map<bool, E, E>([] __device__(T p, T q) { return p == q; }, out, a, b);
    case Compare::ne: return map<bool, E, E>([] __device__(T p, T q) { return p != q; }, out, a, b);
    case Compare::lt: return map<bool, E, E>([] __device__(T p, T q) { return p < q; }, out, a, b);
    case Compare::le: return map<bool, E, E>([] __device__(T p, T q) { return p <= q; }, out, a, b);
    case Compare::gt: return map<bool, E, E>([] __device__(T p, T q) { return p > q; }, out, a, b);
    case Compare::ge: return map<bool, E, E>([] __device__(T p, T q) { return p >= q; }, out, a, b);
  }
}

void compare(Compare op, View out, View a, View b) {
  if (a.dtype == DType::bfloat16) return compare_typed<BFloat16>(op, out, a, b);
  dispatch_any(a.dtype, [&](auto zero) { compare_typed<decltype(zero)>(op, out, a, b); });
}

/// Converts as C++ does. C++ does not define the integer that NaN or too large a number becomes; it differs between
/// CPUs and GPUs. Conversion to bfloat16 rounds once, to nearest even, from every type.
template <class Y, class X>
void copy_typed(const View& out, const View& x) {
  map<Y, X>([] __device__(X v) { return static_cast<Y>(v); }, out, x);
}

void copy(View out, View x) {
  dispatch_stored(out.dtype, [&](auto to) {
    dispatch_stored(x.dtype, [&](auto from) { copy_typed<decltype(to), decltype(from)>(out, x); });
  });
}

template <class T>
void fill_typed(const View& out, T value) {
  map<T>([value] __device__() { return value; }, out);
}

void fill(View out, Scalar value) {
  dispatch_stored(out.dtype, [&](auto zero) { fill_typed(out, value.as<decltype(zero)>()); });
}

template <class T>
void where_typed(const View& out, const View& condition, const View& a, const View& b) {
  map<T, bool, T, T>([] __device__(bool c, T p, T q) { return c ? p : q; }, out, condition, a, b);
}

void where(View out, View condition, View a, View b) {
  dispatch_stored(out.dtype, [&](auto zero) { where_typed<decltype(zero)>(out, condition, a, b); });
}

/// All threads that find a NaN write the same value, so atomics are not needed.
template <class T>
__global__ void find_nan(StridedIndex<1> elements, const T* x, int32_t* found) {
  for (int64_t i = first_item(); i < elements.count; i += item_step()) {
    const float value = static_cast<float>(x[elements.at(i).of[0]]);
    if (value != value) *found = 1;
  }
}

bool has_nan(View x) {
  const Scratch<int32_t> found(1);
  int32_t result = 0;
  from_host(found.data(), &result, sizeof(result));
  const auto elements = index_other_dims<1>({x}, -1);
  const auto find = [&](auto zero) {
    using T = decltype(zero);
    launch(find_nan<T>, blocks_for(elements.count), kThreads, elements, data<const T>(x), found.data());
  };
  dispatch_computed(x.dtype, [&](auto stored, auto) { find(stored); });
  to_host(&result, found.data(), sizeof(result));
  return result != 0;
}

}  // namespace

void fill_copy(Backend& table) {
  table.copy = copy;
  table.fill = fill;
  table.compare = compare;
  table.where = where;
  table.has_nan = has_nan;
}

}  // namespace linnet::cuda
