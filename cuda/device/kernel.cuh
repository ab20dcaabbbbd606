#pragma once

#include <cstdint>
#include <utility>

#include <linnet/cuda/device/launch.cuh>
#include <linnet/cuda/device/strided_index.cuh>

/// Dispatch from a run-time dtype to a C++ type, and kernels that apply a function element by element.

namespace linnet::cuda {

/// Calls `f` with a zero of the C++ type that `dtype` names:
/// `dispatch_floating(x.dtype, [&](auto zero) { using T = decltype(zero); … })`.
template <class F>
void dispatch_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    default: refuse_dtype(dtype);
  }
}

/// `dispatch_floating`, also for integer dtypes.
template <class F>
void dispatch_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int32: return f(int32_t{});
    case DType::int64: return f(int64_t{});
    default: return dispatch_floating(dtype, f);
  }
}

/// `dispatch_number`, also for bool.
template <class F>
void dispatch_any(DType dtype, F&& f) {
  if (dtype == DType::boolean) return f(bool{});
  dispatch_number(dtype, f);
}

template <class T>
T* data(const View& view) {
  return static_cast<T*>(view.data);
}

/// Null for a null view.
template <class T>
T* data(const View* view) {
  return view == nullptr ? nullptr : data<T>(*view);
}

inline int64_t numel(const View& view) {
  int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.shape[d];
  return count;
}

// ---- Element by element. Memory bandwidth bounds these kernels. ----

/// The number of elements that one thread moves together: 16 bytes per load for elements of 4 bytes.
constexpr int kPack = 4;

template <class T>
struct alignas(kPack * sizeof(T)) Pack {
  T of[kPack];
};

template <class F, class Y, class... X>
__device__ Pack<Y> apply(const F& f, const Pack<X>&... x) {
  Pack<Y> y;
  for (int i = 0; i < kPack; ++i) y.of[i] = f(x.of[i]...);
  return y;
}

/// Pack `i` of an operand. An operand with one element is repeated.
template <class X>
__device__ Pack<X> load_pack(const X* x, int64_t step, int64_t i) {
  if (step == 1) return reinterpret_cast<const Pack<X>*>(x)[i];
  Pack<X> same;
  for (int k = 0; k < kPack; ++k) same.of[k] = *x;
  return same;
}

/// y[i] = f(x[i · step]...) for operands without gaps (step 1) or with one element (step 0).
template <class F, class Y, class... X, size_t... v>
__device__ void map_dense_element(int64_t n, const Offsets<1 + sizeof...(X)>& step, const F& f, Y* y,
                                  std::index_sequence<v...>, const X*... x) {
  const int64_t packs = n / kPack;
  for (int64_t i = first_item(); i < packs; i += item_step()) {
    reinterpret_cast<Pack<Y>*>(y)[i] = apply<F, Y>(f, load_pack(x, step.of[v + 1], i)...);
  }
  const int64_t rest = packs * kPack + first_item();
  if (rest < n) y[rest] = f(x[rest * step.of[v + 1]]...);
}

template <class F, class Y, class... X>
__global__ void map_dense(int64_t n, Offsets<1 + sizeof...(X)> step, F f, Y* y, const X*... x) {
  map_dense_element(n, step, f, y, std::index_sequence_for<X...>(), x...);
}

template <class F, class Y, class... X, size_t... v>
__device__ void map_element(const Offsets<1 + sizeof...(X)>& at, const F& f, Y* y, std::index_sequence<v...>,
                            const X*... x) {
  y[at.of[0]] = f(x[at.of[v + 1]]...);
}

/// y = f(x...) for any strides, one thread for each element.
template <class F, class Y, class... X>
__global__ void map_strided(StridedIndex<1 + sizeof...(X)> elements, F f, Y* y, const X*... x) {
  for (int64_t i = first_item(); i < elements.count; i += item_step()) {
    map_element(elements.at(i), f, y, std::index_sequence_for<X...>(), x...);
  }
}

/// Whether packs can be loaded from `data`. An operand of one element needs no packs.
template <class T>
bool is_packed(const T* data, int64_t step) {
  return step == 0 || (step == 1 && reinterpret_cast<uintptr_t>(data) % sizeof(Pack<T>) == 0);
}

template <class F, class Y, class... X, size_t... v>
void map_views(const F& f, const View& out, std::index_sequence<v...>,
               const std::array<View, 1 + sizeof...(X)>& all) {
  const auto elements = index_other_dims<1 + sizeof...(X)>(all, -1);
  Offsets<1 + sizeof...(X)> step = {};
  for (size_t k = 0; k < all.size(); ++k) step.of[k] = elements.rank == 0 ? 1 : elements.stride[0][k];
  const bool dense = elements.rank <= 1 && step.of[0] == 1 && is_packed(data<Y>(out), 1) &&
                     (is_packed(data<X>(all[v + 1]), step.of[v + 1]) && ...);
  if (dense) {
    launch(map_dense<F, Y, X...>, blocks_for(ceil_div(elements.count, kPack)), kThreads, elements.count, step, f,
           data<Y>(out), data<const X>(all[v + 1])...);
  } else {
    launch(map_strided<F, Y, X...>, blocks_for(elements.count), kThreads, elements, f, data<Y>(out),
           data<const X>(all[v + 1])...);
  }
}

/// out = f(x...), element by element; all views have out's shape. `map<Y, X...>(f, out, x...)`, where f takes
/// elements X... and gives a Y.
template <class Y, class... X, class F, class... Views>
void map(F f, const View& out, const Views&... x) {
  static_assert(sizeof...(X) == sizeof...(Views), "one element type for each operand");
  map_views<F, Y, X...>(f, out, std::index_sequence_for<X...>(), {out, x...});
}

}  // namespace linnet::cuda
