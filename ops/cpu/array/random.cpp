#include <cmath>
#include <cstring>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/philox_blocks.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Random numbers from the words of a Philox stream, kWords at a time. Uniform numbers and masks are bound by
/// Philox's multiplications, normal numbers by logarithms and cosines.

namespace linnet::cpu::LINNET_ISA {
namespace {

constexpr int64_t kWords = 256;         // words drawn together; they stay in the L1 cache
constexpr int64_t kGrainWords = 16384;  // per task: a word costs more than an addition

/// Calls `use(i, n, words)` for ranges of n elements from element i on, with `per_element` words for each element.
template <int64_t per_element, class Use>
void for_each_range(int64_t count, RandomKey key, Use use) {
  parallel_for(count, kGrainWords / per_element, [&](int64_t begin, int64_t end) {
    uint32_t words[kWords];
    for (int64_t i = begin; i < end; i += kWords / per_element) {
      philox_blocks(key, static_cast<uint64_t>(i * per_element / 4), kWords / 4, words);
      use(i, end - i < kWords / per_element ? end - i : kWords / per_element, words);
    }
  });
}

void uniform(View out, RandomKey key) {
  const int64_t count = numel(out);
  if (out.dtype == DType::float32) {
    for_each_range<1>(count, key, [y = data<float>(out)](int64_t first, int64_t n, const uint32_t* words) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[first + i] = to_uniform(words[i]);
    });
  } else if (out.dtype == DType::float64) {
    for_each_range<2>(count, key, [y = data<double>(out)](int64_t first, int64_t n, const uint32_t* words) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        // 27 high bits and 26 low bits
        y[first + i] = ((words[2 * i] >> 5) * 0x1p26 + (words[2 * i + 1] >> 6)) * 0x1p-53;
      }
    });
  } else {
    refuse_dtype(out.dtype);
  }
}

/// √(−2·ln u)·cos(2π·v) with u in (0, 1] and v in [0, 1) (Box & Muller 1958).
void normal(View out, RandomKey key) {
  dispatch_floating(out.dtype, [&]<class T>(T) {
    for_each_range<2>(numel(out), key, [y = data<T>(out)](int64_t first, int64_t n, const uint32_t* words) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        // 31 bits, as a signed number: those convert fast on every machine.
        const T u = (static_cast<T>(static_cast<int32_t>(words[2 * i] >> 1)) + T(1)) * T(0x1p-31);
        const T v = static_cast<T>(to_uniform(words[2 * i + 1]));
        y[first + i] = std::sqrt(T(-2) * vec::log(u)) * vec::cos_turns(v);
      }
    });
  });
}

template <class T>
void random_integers_of(const View& out, int64_t low, int64_t range, RandomKey key) {
  for_each_range<1>(numel(out), key, [=, y = data<T>(out)](int64_t first, int64_t n, const uint32_t* words) {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t offset = (uint64_t{words[i]} * static_cast<uint64_t>(range)) >> 32;
      y[first + i] = static_cast<T>(low + static_cast<int64_t>(offset));
    }
  });
}

void random_integers(View out, int64_t low, int64_t range, RandomKey key) {
  switch (out.dtype) {
    case DType::int32: return random_integers_of<int32_t>(out, low, range, key);
    case DType::int64: return random_integers_of<int64_t>(out, low, range, key);
    default: refuse_dtype(out.dtype);
  }
}

void dropout(View out, View x, double rate, RandomKey key) {
  const uint64_t threshold = keep_threshold(1 - rate);
  if (threshold == 0) {
    std::memset(out.data, 0, static_cast<size_t>(numel(out) * size_of(out.dtype)));
    return;
  }
  const uint32_t last_kept = static_cast<uint32_t>(threshold - 1);  // 32 bits compare faster than 33
  dispatch_floating(out.dtype, [&]<class T>(T) {
    const T scale = static_cast<T>(1 / (1 - rate));
    const T* from = data<T>(x);
    T* to = data<T>(out);
    for_each_range<1>(numel(out), key, [=](int64_t first, int64_t n, const uint32_t* words) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const T scaled = from[first + i] * scale;
        to[first + i] = words[i] <= last_kept ? scaled : T(0);
      }
    });
  });
}

}  // namespace

void fill_random(Backend& table) {
  table.uniform = uniform;
  table.normal = normal;
  table.random_integers = random_integers;
  table.dropout = dropout;
}

}  // namespace linnet::cpu::LINNET_ISA
