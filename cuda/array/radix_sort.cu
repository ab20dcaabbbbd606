#include <linnet/cuda/array/radix_sort.cuh>

#include <cub/device/device_radix_sort.cuh>
#include <linnet/cuda/device/device.cuh>

/// CUB's radix sort for one type of key, in a file of its own because it takes by far the longest to compile.

namespace linnet::cuda {
namespace {

cudaError_t sort(void* memory, size_t* bytes, const Pairs& pairs, int bits) {
  return cub::DeviceRadixSort::SortPairs(memory, *bytes, static_cast<const uint64_t*>(pairs.keys.data()),
                                         pairs.sorted_keys.data(), static_cast<const int64_t*>(pairs.values.data()),
                                         pairs.sorted_values.data(), pairs.count, 0, bits, stream());
}

}  // namespace

void sort_pairs(const Pairs& pairs, int bits) {
  if (pairs.count == 0) return;
  size_t bytes = 0;
  check(sort(nullptr, &bytes, pairs, bits), "sizing a sort");
  const Scratch<char> memory(
      static_cast<int64_t>(bytes > 0 ? bytes : 1));  // a null pointer would only ask for the size again
  check(sort(memory.data(), &bytes, pairs, bits), "sorting");
  check_launch();
}

}  // namespace linnet::cuda
