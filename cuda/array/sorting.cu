#include <linnet/cuda/array/radix_sort.cuh>
#include <linnet/cuda/device/kernel.cuh>

/// Sorts all rows of the last dim at once. The key of an element is its row's number in the high bits, and in the low
/// bits those of the element, changed to order like the numbers. If both do not fit into 64 bits, a second sort
/// orders by rows. The passes of the radix sort bound it: one for each 8 bits of the keys, each of which reads and
/// writes 16 bytes for an element.

namespace linnet::cuda {
namespace {

/// Bits that are ordered like the numbers: NaN is the largest, and −0 equals 0.
__device__ uint64_t ordered(bool x) { return x ? 1 : 0; }
__device__ uint64_t ordered(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
__device__ uint64_t ordered(int64_t x) { return static_cast<uint64_t>(x) ^ 0x8000000000000000u; }

/// The bits of negative numbers have the opposite order, so they are inverted.
__device__ uint64_t ordered(float x) {
  if (x != x) return 0xffffffffu;
  const uint32_t bits = static_cast<uint32_t>(__float_as_int(x + 0.0f));  // −0 + 0 is 0
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ uint64_t ordered(double x) {
  if (x != x) return 0xffffffffffffffffu;
  const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x + 0.0));
  return (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000u;
}

/// keys[e] = the ordered bits of element e, with the number of its row above them if `with_row`; values[e] = e.
template <class T>
__global__ void make_keys(StridedIndex<1> rows, int64_t n, int64_t step, const T* x, bool descending, int value_bits,
                          bool with_row, uint64_t* keys, int64_t* values) {
  const uint64_t mask = value_bits < 64 ? (uint64_t{1} << value_bits) - 1 : ~uint64_t{0};
  for (int64_t e = first_item(); e < rows.count * n; e += item_step()) {
    const int64_t row = e / n, i = e % n;
    uint64_t key = ordered(x[rows.at(row).of[0] + i * step]);
    if (descending) key = ~key & mask;
    keys[e] = with_row ? static_cast<uint64_t>(row) << value_bits | key : key;
    values[e] = e;
  }
}

/// Keys for a second, stable sort by rows alone.
__global__ void make_row_keys(int64_t count, int64_t n, const int64_t* elements, uint64_t* keys, int64_t* values) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    keys[i] = static_cast<uint64_t>(elements[i] / n);
    values[i] = elements[i];
  }
}

/// The first k elements of each sorted row.
template <class T>
__global__ void take_sorted(StridedIndex<1> rows, int64_t n, int64_t k, int64_t step, const T* x,
                            const int64_t* elements, T* sorted, int64_t* indices) {
  for (int64_t i = first_item(); i < rows.count * k; i += item_step()) {
    const int64_t e = elements[i / k * n + i % k], index = e % n;
    sorted[i] = x[rows.at(e / n).of[0] + index * step];
    indices[i] = index;
  }
}

template <class T>
void sort_typed(const View& values, const View& indices, const View& x, bool descending) {
  const int dim = x.rank - 1;
  const int64_t n = x.shape[dim], k = values.shape[dim], step = x.strides[dim];
  const StridedIndex<1> rows = index_other_dims<1>({x}, dim);
  const Pairs pairs(rows.count * n);
  const int value_bits = std::is_same_v<T, bool> ? 1 : 8 * static_cast<int>(sizeof(T));
  const int row_bits = bits_below(rows.count);
  const bool together = value_bits + row_bits <= 64;
  launch(make_keys<T>, blocks_for(pairs.count), kThreads, rows, n, step, data<const T>(x), descending, value_bits,
         together, pairs.keys.data(), pairs.values.data());
  sort_pairs(pairs, together ? value_bits + row_bits : value_bits);
  if (!together && rows.count > 1) {
    launch(make_row_keys, blocks_for(pairs.count), kThreads, pairs.count, n, pairs.sorted_values.data(),
           pairs.keys.data(), pairs.values.data());
    sort_pairs(pairs, row_bits);
  }
  launch(take_sorted<T>, blocks_for(rows.count * k), kThreads, rows, n, k, step, data<const T>(x),
         pairs.sorted_values.data(), data<T>(values), data<int64_t>(indices));
}

void sort(View values, View indices, View x, bool descending) {
  dispatch_any(x.dtype, [&](auto zero) { sort_typed<decltype(zero)>(values, indices, x, descending); });
}

}  // namespace

void fill_sorting(Backend& table) { table.sort = sort; }

}  // namespace linnet::cuda
