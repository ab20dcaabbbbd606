#include <algorithm>
#include <cmath>
#include <type_traits>

#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/strided_index.h>

/// Sorting of lines, or of their first elements. Bound by comparisons: a line is copied, each element beside its
/// index, and the copy is sorted.

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

void sort(View values, View indices, View x, bool descending) {
  const int dim = x.rank - 1;
  const int64_t n = x.shape[dim], first = values.shape[dim], step = x.strides[dim];
  const int64_t cost = 16 * n;  // a comparison or move per bit of n, about
  dispatch_any(x.dtype, [&]<class T>(T) {
    for_each_line<3>({values, indices, x}, dim, cost, [&](const auto& at) {
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
