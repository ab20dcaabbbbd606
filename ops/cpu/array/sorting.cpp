#include <algorithm>
#include <cmath>
#include <type_traits>

#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/strided_index.h>

/// Sorting of lines, or of their first elements. Bound by comparisons: a line is copied, each element beside its
/// index, and the copy is sorted. A line of integers that lie close together is sorted by counting instead.

namespace linnet::cpu::LINNET_ISA {
namespace {

template <class T>
struct Item {
  T value;
  int64_t index;
};

/// NaN counts as the largest.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

/// Sorts a line of n integers by counting, if the largest and the least differ by less than n; returns whether they
/// do. Writes the first `count` elements.
template <class T>
bool sort_by_counting(const T* x, int64_t step, int64_t n, bool descending, T* values, int64_t* indices,
                      int64_t count) {
  if (n == 0) return false;
  T least = x[0], largest = x[0];
  for (int64_t i = 1; i < n; ++i) {
    least = std::min(least, x[i * step]);
    largest = std::max(largest, x[i * step]);
  }
  const auto low = static_cast<uint64_t>(least), high = static_cast<uint64_t>(largest);
  if (high - low >= static_cast<uint64_t>(n)) return false;
  const auto span = static_cast<int64_t>(high - low) + 1;
  const auto rank = [=](T value) {
    const auto number = static_cast<uint64_t>(value);
    return static_cast<int64_t>(descending ? high - number : number - low);
  };
  const Scratch<int64_t> next(span + 1);  // where the next element of each rank goes
  std::fill_n(next.data(), span + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++next[rank(x[i * step]) + 1];
  for (int64_t r = 1; r < span; ++r) next[r] += next[r - 1];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = next[rank(x[i * step])]++;
    if (place >= count) continue;
    values[place] = x[i * step];
    indices[place] = i;
  }
  return true;
}

void sort(View values, View indices, View x, bool descending) {
  const int dim = x.rank - 1;
  const int64_t n = x.shape[dim], first = values.shape[dim], step = x.strides[dim];
  const int64_t cost = 16 * n;  // about a comparison or move for each bit of n
  dispatch_any(x.dtype, [&]<class T>(T) {
    for_each_line<3>({values, indices, x}, dim, cost, [&](const auto& at) {
      if constexpr (std::is_integral_v<T>) {
        if (sort_by_counting(data<T>(x) + at[2], step, n, descending, data<T>(values) + at[0],
                             data<int64_t>(indices) + at[1], first)) {
          return;
        }
      }
      const Scratch<Item<T>> scratch(n);
      Item<T>* items = scratch.data();
      for (int64_t i = 0; i < n; ++i) items[i] = {data<T>(x)[at[2] + i * step], i};
      const auto before = [descending](const Item<T>& a, const Item<T>& b) {
        if (descending ? less(b.value, a.value) : less(a.value, b.value)) return true;
        if (descending ? less(a.value, b.value) : less(b.value, a.value)) return false;
        return a.index < b.index;  // makes the sort stable
      };
      std::nth_element(items, items + first, items + n, before);  // does nothing when all are wanted
      std::sort(items, items + first, before);
      for (int64_t i = 0; i < first; ++i) {
        data<T>(values)[at[0] + i] = items[i].value;
        data<int64_t>(indices)[at[1] + i] = items[i].index;
      }
    });
  });
}

}  // namespace

void fill_sorting(Backend& table) { table.sort = sort; }

}  // namespace linnet::cpu::LINNET_ISA
