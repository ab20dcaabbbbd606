#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/recording.cuh>

/// Random numbers from words of a Philox stream, four at a time. All results except normal numbers are bit-identical
/// to the CPU's. The ten rounds of Philox and writing the result bound these kernels about equally.

namespace linnet::cuda {
namespace {

/// y[i] = make(word i), or with two words make(word 2i, word 2i + 1). There is one thread for each Philox block.
template <int kWords, class T, class Make>
__global__ void draw(int64_t count, LiveKey live, Make make, T* y) {
  const RandomKey key = live;
  constexpr int kElements = 4 / kWords;
  for (int64_t block = first_item(); block * kElements < count; block += item_step()) {
    const PhiloxBlock words = philox(key, static_cast<uint64_t>(block));
    for (int e = 0; e < kElements; ++e) {
      const int64_t i = block * kElements + e;
      if (i >= count) return;
      if constexpr (kWords == 1) {
        y[i] = make(words.word[e]);
      } else {
        y[i] = make(words.word[2 * e], words.word[2 * e + 1]);
      }
    }
  }
}

template <int kWords, class T, class Make>
void draw_into(const View& out, RandomKey key, Make make) {
  const int64_t count = numel(out);
  launch(draw<kWords, T, Make>, blocks_for(ceil_div(count * kWords, 4)), kThreads, count, key, make, data<T>(out));
}

void uniform(View out, RandomKey key) {
  if (out.dtype == DType::float32) {
    draw_into<1, float>(out, key, [] __device__(uint32_t word) { return to_uniform(word); });
  } else if (out.dtype == DType::float64) {
    draw_into<2, double>(out, key, [] __device__(uint32_t high, uint32_t low) {
      return ((high >> 5) * 0x1p26 + (low >> 6)) * 0x1p-53;  // 27 bits above 26 bits
    });
  } else {
    refuse_dtype(out.dtype);
  }
}

/// √(−2·ln u)·cos(2π·v) with u in (0, 1] and v in [0, 1) (Box & Muller 1958).
template <class T>
void normal_typed(const View& out, RandomKey key) {
  draw_into<2, T>(out, key, [] __device__(uint32_t first, uint32_t second) {
    const T u = (static_cast<T>(static_cast<int32_t>(first >> 1)) + T(1)) * T(0x1p-31);
    const T v = static_cast<T>(to_uniform(second));
    return static_cast<T>(sqrt(T(-2) * log(u)) * cospi(2 * v));
  });
}

void normal(View out, RandomKey key) {
  dispatch_floating(out.dtype, [&](auto zero) { normal_typed<decltype(zero)>(out, key); });
}

template <class T>
void random_integers_typed(const View& out, int64_t low, int64_t range, RandomKey key) {
  draw_into<1, T>(out, key, [low, range] __device__(uint32_t word) {
    const uint64_t offset = (uint64_t{word} * static_cast<uint64_t>(range)) >> 32;
    return static_cast<T>(low + static_cast<int64_t>(offset));
  });
}

void random_integers(View out, int64_t low, int64_t range, RandomKey key) {
  switch (out.dtype) {
    case DType::int32: return random_integers_typed<int32_t>(out, low, range, key);
    case DType::int64: return random_integers_typed<int64_t>(out, low, range, key);
    default: refuse_dtype(out.dtype);
  }
}

/// y = x · scale where the element's word is below the threshold, otherwise 0. There is one thread for each Philox
/// block.
template <class E, class T>
__global__ void drop(int64_t count, LiveKey live, uint64_t threshold, T scale, bool packed, E* y, const E* x) {
  static_assert(kPack == 4, "a pack for each Philox block");
  const RandomKey key = live;
  for (int64_t block = first_item(); block * kPack < count; block += item_step()) {
    const PhiloxBlock words = philox(key, static_cast<uint64_t>(block));
    const auto dropped = [&](int e, T from) { return words.word[e] < threshold ? from * scale : T(0); };
    const int64_t first = block * kPack;
    if (packed && first + kPack <= count) {
      Pack<E> pack = reinterpret_cast<const Pack<E>*>(x)[block];
      for (int e = 0; e < kPack; ++e) pack.of[e] = dropped(e, pack.of[e]);
      reinterpret_cast<Pack<E>*>(y)[block] = pack;
    } else {
      for (int e = 0; e < kPack && first + e < count; ++e) y[first + e] = dropped(e, x[first + e]);
    }
  }
}

void dropout(View out, View x, double rate, RandomKey key) {
  dispatch_computed(out.dtype, [&](auto stored, auto computed) {
    using E = decltype(stored);
    using T = decltype(computed);
    const int64_t count = numel(out);
    const uint64_t threshold = keep_threshold(1 - rate);
    const T scale = threshold == 0 ? T(0) : static_cast<T>(1 / (1 - rate));
    const bool packed = is_packed(data<E>(out), 1) && is_packed(data<const E>(x), 1);
    launch(drop<E, T>, blocks_for(ceil_div(count, kPack)), kThreads, count, LiveKey(key), threshold, scale, packed,
           data<E>(out), data<const E>(x));
  });
}

}  // namespace

void fill_random(Backend& table) {
  table.uniform = uniform;
  table.normal = normal;
  table.random_integers = random_integers;
  table.dropout = dropout;
}

}  // namespace linnet::cuda
