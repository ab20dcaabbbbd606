#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <linnet/core/device/backend.h>
#include <linnet/core/parallel/parallel.h>

/// Shared by all CPU kernels: dispatch from a run-time dtype to a C++ type, and loops over strided views.
///
/// A kernel file is compiled once per instruction set, with LINNET_ISA as the name of the namespace that
/// keeps the copies apart. So kernels live in `linnet::cpu::LINNET_ISA`, and helpers that they share do too.

namespace linnet::cpu {

/// Throws DTypeError. Defined in dispatch.cpp, so that no code for one instruction set builds strings.
[[noreturn, gnu::visibility("hidden")]] void refuse_dtype(DType dtype);

}  // namespace linnet::cpu

namespace linnet::cpu::LINNET_ISA {

/// Elements of one task when each costs about as much as an addition. Less work than this is not worth another
/// thread.
constexpr int64_t kGrain = 32768;
/// Elements of one task when the work is above kGrain: finer tasks spread more evenly. With 3 tasks, one of 2 threads
/// would do 2 of them.
constexpr int64_t kFineGrain = kGrain / 4;

constexpr int64_t ceil_div(int64_t n, int64_t step) { return (n + step - 1) / step; }
constexpr int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

/// Calls `f` with a zero of the C++ type that `dtype` names: `dispatch_floating(x.dtype, [&]<class T>(T) { …
/// })`.
template <class F>
void dispatch_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    default: refuse_dtype(dtype);
  }
}

/// `dispatch_floating` for floating and integer dtypes.
template <class F>
void dispatch_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::int32: return f(int32_t{});
    case DType::int64: return f(int64_t{});
    default: return dispatch_floating(dtype, f);
  }
}

/// `dispatch_floating` for every dtype of the CPU, bool too.
template <class F>
void dispatch_any(DType dtype, F&& f) {
  if (dtype == DType::boolean) return f(bool{});
  dispatch_number(dtype, f);
}

/// Calls `f` with the width of a head: as a compile-time constant for common widths, so that loops over it unroll.
/// Only for float32: float64 is for checks, and each constant adds as much compile time as all the rest.
template <class T, class F>
void with_width(int64_t width, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    switch (width) {
      case 16: return f(std::integral_constant<int64_t, 16>{});
      case 32: return f(std::integral_constant<int64_t, 32>{});
      case 64: return f(std::integral_constant<int64_t, 64>{});
      case 128: return f(std::integral_constant<int64_t, 128>{});
      default: break;
    }
  }
  f(width);
}

template <class T>
T* data(const View& view) {
  return static_cast<T*>(view.data);
}

inline int64_t numel(const View& view) {
  int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.shape[d];
  return count;
}

/// The dims of N views of one shape: without dims of size 1, and with neighbouring dims merged into one where every
/// view's strides allow it. Dim 0 is the innermost.
template <int N>
struct CollapsedDims {
  // More than 62 dims of size 2 or more would have over 2^62 elements.
  static constexpr int kMaxRank = 64;

  int rank = 0;
  int64_t size[kMaxRank];
  std::array<int64_t, N> stride[kMaxRank];

  explicit CollapsedDims(const std::array<View, N>& views) {
    for (int d = views[0].rank - 1; d >= 0; --d) {
      const int64_t count = views[0].shape[d];
      if (count == 1) continue;
      std::array<int64_t, N> steps;
      bool continues = rank > 0;
      for (int v = 0; v < N; ++v) {
        steps[v] = views[v].strides[d];
        continues = continues && steps[v] == stride[rank - 1][v] * size[rank - 1];
      }
      if (continues) {
        size[rank - 1] *= count;
      } else {
        size[rank] = count;
        stride[rank++] = steps;
      }
    }
    if (rank == 0) {
      size[0] = 1;
      stride[0].fill(1);
      rank = 1;
    }
  }
};

/// The function of for_each_row behind a pointer, so that the loop over rows is compiled once for each N.
template <int N>
struct RowFunction {
  using Offsets = std::array<int64_t, N>;
  void (*call)(const void* context, int64_t n, const Offsets& at, const Offsets& step);
  const void* context;
};

/// Implements for_each_row.
template <int N>
void visit_rows(const std::array<View, N>& views, RowFunction<N> row) {
  if (numel(views[0]) == 0) return;
  CollapsedDims<N> dims(views);
  // A call for a row of few elements costs more than a stride in memory: a longer dim becomes the innermost one.
  constexpr int64_t kFew = 4;
  for (int d = 1; d < dims.rank && dims.size[0] <= kFew; ++d) {
    if (dims.size[d] <= kFew) continue;
    std::swap(dims.size[0], dims.size[d]);
    std::swap(dims.stride[0], dims.stride[d]);
  }
  int64_t rows = 1;
  for (int d = 1; d < dims.rank; ++d) rows *= dims.size[d];

  // A long row is split into several tasks; a task takes several short rows.
  const int64_t n = dims.size[0], grain = rows * n > kGrain ? kFineGrain : kGrain;
  const int64_t splits = ceil_div(n, grain);
  const int64_t split_size = ceil_div(n, splits);
  parallel_for(rows * splits, splits > 1 ? 1 : grain / n, [&](int64_t begin, int64_t end) {
    int64_t split = begin % splits;
    int64_t index[CollapsedDims<N>::kMaxRank];
    std::array<int64_t, N> at{};
    int64_t rest = begin / splits;
    for (int d = 1; d < dims.rank; ++d) {
      index[d] = rest % dims.size[d];
      rest /= dims.size[d];
      for (int v = 0; v < N; ++v) at[v] += index[d] * dims.stride[d][v];
    }
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = split * split_size;
      const int64_t last = first + split_size < n ? first + split_size : n;
      std::array<int64_t, N> from;
      for (int v = 0; v < N; ++v) from[v] = at[v] + first * dims.stride[0][v];
      if (first < last) row.call(row.context, last - first, from, dims.stride[0]);
      if (++split < splits) continue;
      split = 0;
      for (int d = 1; d < dims.rank; ++d) {
        for (int v = 0; v < N; ++v) at[v] += dims.stride[d][v];
        if (++index[d] < dims.size[d]) break;
        for (int v = 0; v < N; ++v) at[v] -= index[d] * dims.stride[d][v];
        index[d] = 0;
      }
    }
  });
}

/// Calls `row(n, at, step)` for ranges of n elements along one dim that together cover the views' shape: element i of
/// a range is at offset at[v] + i · step[v] of view v. Runs on several threads; the ranges depend on the shape and
/// the strides alone.
template <int N, class Row>
void for_each_row(const std::array<View, N>& views, const Row& row) {
  using Offsets = std::array<int64_t, N>;
  visit_rows<N>(views, {[](const void* context, int64_t n, const Offsets& at, const Offsets& step) {
                          (*static_cast<const Row*>(context))(n, at, step);
                        },
                        &row});
}

/// Prefetches `count` elements from x on, a cache line at a time.
/// Always inlined, and so must be a function that only calls it: g++ thinks that a function that only prefetches has
/// no effect, and drops calls of it.
template <class T>
[[gnu::always_inline]] inline void fetch(const T* x, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(x + i);
}

/// Prefetches `count` elements a page ahead of x. The hardware prefetcher stops at the end of a page, which limits a
/// loop over two or three tensors in memory.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* x, int64_t count) {
  constexpr int64_t kPage = 4096;
  fetch(reinterpret_cast<const char*>(x) + kPage, count * static_cast<int64_t>(sizeof(T)));
}

/// Calls `f(i)` for all i in [0, n), vectorised; f reads element i of each x, which is prefetched.
template <class F, class... X>
[[gnu::always_inline]] inline void for_each_element(int64_t n, F f, const X*... x) {
  constexpr int64_t kRange = 64;
  const int64_t whole = n / kRange * kRange;
  for (int64_t first = 0; first < whole; first += kRange) {
    (fetch_ahead(x + first, kRange), ...);
#pragma omp simd
    for (int64_t i = first; i < first + kRange; ++i) f(i);
  }
#pragma omp simd
  for (int64_t i = whole; i < n; ++i) f(i);
}

/// out = f(x), element by element.
template <class Y, class X, class F>
void map(const View& out, const View& x, F f) {
  for_each_row<2>({out, x}, [&](int64_t n, const auto& at, const auto& step) {
    Y* y = data<Y>(out) + at[0];
    const X* a = data<X>(x) + at[1];
    const int64_t sy = step[0], sa = step[1];
    if (sy == 1 && sa == 1) {
      for_each_element(n, [=](int64_t i) { y[i] = f(a[i]); }, a);
    } else if (sy == 1 && sa == 0) {
      const Y value = f(*a);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = value;
    } else {
      for (int64_t i = 0; i < n; ++i) y[i * sy] = f(a[i * sa]);
    }
  });
}

/// out = f(a, b), element by element, vectorised also where an operand is constant along the row.
template <class Y, class A, class B, class F>
void map(const View& out, const View& a, const View& b, F f) {
  for_each_row<3>({out, a, b}, [&](int64_t n, const auto& at, const auto& step) {
    Y* y = data<Y>(out) + at[0];
    const A* p = data<A>(a) + at[1];
    const B* q = data<B>(b) + at[2];
    const int64_t sy = step[0], sp = step[1], sq = step[2];
    if (sy == 1 && sp == 1 && sq == 1) {
      for_each_element(n, [=](int64_t i) { y[i] = f(p[i], q[i]); }, p, q);
    } else if (sy == 1 && sp == 1 && sq == 0) {
      const B same = *q;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = f(p[i], same);
    } else if (sy == 1 && sp == 0 && sq == 1) {
      const A same = *p;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = f(same, q[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) y[i * sy] = f(p[i * sp], q[i * sq]);
    }
  });
}

/// Elements [begin, end) of one of several tensors.
struct ElementRange {
  int64_t tensor, begin, end;
};

/// Calls `f(range, number)` for ranges of `size` elements of `tensors` tensors with numel_of(i) elements each,
/// numbered in order. One parallel loop for all tensors: a model has many small parameters, too small for a loop
/// each.
template <class Numel, class F>
void for_each_element_range(int64_t tensors, int64_t size, Numel numel_of, F f) {
  const auto ranges_of = [&](int64_t i) { return ceil_div(numel_of(i), size); };
  int64_t ranges = 0;
  for (int64_t i = 0; i < tensors; ++i) ranges += ranges_of(i);
  parallel_tasks(ranges, [&](int64_t number) {
    int64_t tensor = 0, index = number;
    for (; index >= ranges_of(tensor); ++tensor) index -= ranges_of(tensor);
    const int64_t begin = index * size, count = numel_of(tensor);
    f(ElementRange{tensor, begin, begin + size < count ? begin + size : count}, number);
  });
}

}  // namespace linnet::cpu::LINNET_ISA
