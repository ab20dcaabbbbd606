#include <algorithm>

#include <linnet/cuda/attention/mapped_rows.cuh>
#include <linnet/cuda/device/head_rows.cuh>
#include <linnet/cuda/device/math.cuh>

/// Memory bounds these kernels. Each reads a row once from memory; it reads a long row again from the cache.

namespace linnet::cuda {
namespace {

/// y = (x − mean(x)) / √(var(x) + 1e-5) of each row; 0 for tokens before `first` and for padding.
template <class ThreadGroup, class E, class T>
__global__ void standardise_rows(HeadSizes all, FirstQuery first, PaddingMask padding_mask, HeadRows<const E> from,
                                 HeadRows<E> to, T* inverse_std) {
  using Batch = RowBatch<ThreadGroup>;
  const auto share = JoinedIn<E>{1} / static_cast<JoinedIn<E>>(all.width);
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    const int64_t begin = first.of(batch.b);
    bool exists[kRowBatch];
#pragma unroll
    for (int j = 0; j < kRowBatch; ++j) {
      exists[j] = batch.has[j] && batch.token(j) >= begin && padding_mask.has(batch.b, batch.h, batch.token(j));
    }
    const auto load = [&](int64_t c) { return batch.template load<T>(from, exists, c); };
    const RowPacks<T> first_pack = load(batch.column());
    // Calls f(x, c) with each pack, which begins at column c.
    const auto for_packs = [&](auto f) {
      f(first_pack, batch.column());
      batch.for_further_packs([&](int64_t c) { f(load(c), c); });
    };

    T mean[kRowBatch] = {}, scale[kRowBatch] = {};
    for_packs([&](const RowPacks<T>& x, int64_t) {
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) mean[j] += x.of[j].of[k];
      }
    });
    Batch::reduce(mean, share);  // [FAST eq.5]
    for_packs([&](const RowPacks<T>& x, int64_t c) {
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) {
          const T rest = k < batch.columns(c) ? x.of[j].of[k] - mean[j] : T{0};
          scale[j] += rest * rest;
        }
      }
    });
    Batch::reduce(scale, share);  // the variance
    T rest[kRowBatch] = {};       // the rounding error of the mean, if the mean is large
    bool any_large = false;
    for (int j = 0; j < kRowBatch; ++j) any_large = any_large || has_large_mean(mean[j], scale[j]);
    if (reduce_lanes<kWarp>(any_large ? 1 : 0, Maximum()) != 0) {  // all lanes of a warp must reduce together
      for_packs([&](const RowPacks<T>& x, int64_t c) {
        for (int j = 0; j < kRowBatch; ++j) {
          for (int k = 0; k < kPack; ++k) rest[j] += k < batch.columns(c) ? x.of[j].of[k] - mean[j] : T{0};
        }
      });
      Batch::reduce(rest, share);
      for (int j = 0; j < kRowBatch; ++j) {
        rest[j] = has_large_mean(mean[j], scale[j]) ? rest[j] : T{0};
        scale[j] = max(scale[j] - rest[j] * rest[j], T{0});
      }
    }
    for (int j = 0; j < kRowBatch; ++j) {
      scale[j] = exists[j] ? rsqrt(scale[j] + static_cast<T>(1e-5)) : T{0};
      if (ThreadGroup::lane() == 0 && batch.has[j]) inverse_std[batch.row + j * ThreadGroup::rows] = scale[j];
    }
    for_packs([&](RowPacks<T> x, int64_t c) {
      for (int j = 0; j < kRowBatch; ++j) {
        // [FAST eq.6]
        for (int k = 0; k < kPack; ++k) x.of[j].of[k] = (x.of[j].of[k] - mean[j] - rest[j]) * scale[j];
      }
      batch.store(to, c, x);
    });
  }
}

/// ∂x = (∂y − mean(∂y) − y·mean(∂y·y)) / std(x), in place. Mathematically mean(∂y) is 0. It is subtracted because
/// products may be rounded to bfloat16.
template <class ThreadGroup, class E, class T>
__global__ void differentiate_rows(HeadSizes all, HeadRows<E> gradients, HeadRows<const E> ys, const T* inverse_std) {
  using Batch = RowBatch<ThreadGroup>;
  const auto share = JoinedIn<E>{1} / static_cast<JoinedIn<E>>(all.width);
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    const auto load = [&](const auto& rows, int64_t c) { return batch.template load<T>(rows, batch.has, c); };
    const RowPacks<T> first_g = load(gradients, batch.column()), first_y = load(ys, batch.column());
    // Calls f(∂y, y, c) with each pack, which begins at column c.
    const auto for_packs = [&](auto f) {
      f(first_g, first_y, batch.column());
      batch.for_further_packs([&](int64_t c) { f(load(gradients, c), load(ys, c), c); });
    };

    T scale[kRowBatch], mean[kRowBatch] = {}, slope[kRowBatch] = {};
    for (int j = 0; j < kRowBatch; ++j) {
      scale[j] = batch.has[j] ? inverse_std[batch.row + j * ThreadGroup::rows] : T{0};
    }
    for_packs([&](const RowPacks<T>& g, const RowPacks<T>& y, int64_t) {
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) {
          mean[j] += g.of[j].of[k];
          slope[j] += g.of[j].of[k] * y.of[j].of[k];
        }
      }
    });
    Batch::reduce(mean, share);
    Batch::reduce(slope, share);
    for_packs([&](RowPacks<T> g, const RowPacks<T>& y, int64_t c) {
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) {
          // Gradient of [FAST eq.5] [FAST eq.6].
          g.of[j].of[k] = (g.of[j].of[k] - mean[j] - y.of[j].of[k] * slope[j]) * scale[j];
        }
      }
      batch.store(gradients, c, g);
    });
  }
}

/// y = φ(x) / s with φ(x) = elu(x) + 1 (Katharopoulos et al. 2020, eq. 7), where s is the sum of a row for queries
/// and 1 for keys; 0 for tokens before `first` and for padding.
template <class ThreadGroup, class E, class T>
__global__ void make_elu_rows(HeadSizes all, FirstQuery first, PaddingMask padding_mask, HeadRows<const E> from,
                              HeadRows<E> to, T* inverse, bool queries) {
  using Batch = RowBatch<ThreadGroup>;
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    const int64_t begin = first.of(batch.b);
    bool exists[kRowBatch];
#pragma unroll
    for (int j = 0; j < kRowBatch; ++j) {
      exists[j] = batch.has[j] && batch.token(j) >= begin && padding_mask.has(batch.b, batch.h, batch.token(j));
    }
    const auto load = [&](int64_t c) {
      RowPacks<T> x = batch.template load<T>(from, exists, c);
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) {
          x.of[j].of[k] = exists[j] && k < batch.columns(c) ? elu_plus_one(x.of[j].of[k]) : T{0};
        }
      }
      return x;
    };
    const RowPacks<T> first_pack = load(batch.column());
    // Calls f(φ, c) with each pack, which begins at column c.
    const auto for_packs = [&](auto f) {
      f(first_pack, batch.column());
      batch.for_further_packs([&](int64_t c) { f(load(c), c); });
    };

    T scale[kRowBatch] = {};
    if (queries) {
      for_packs([&](const RowPacks<T>& phi, int64_t) {
        for (int j = 0; j < kRowBatch; ++j) {
          for (int k = 0; k < kPack; ++k) scale[j] += phi.of[j].of[k];
        }
      });
      Batch::template reduce<JoinedIn<E>>(scale);
    }
    for (int j = 0; j < kRowBatch; ++j) {
      scale[j] = queries && exists[j] ? 1 / scale[j] : T{1};
      if (ThreadGroup::lane() == 0 && batch.has[j]) inverse[batch.row + j * ThreadGroup::rows] = scale[j];
    }
    for_packs([&](RowPacks<T> phi, int64_t c) {
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) phi.of[j].of[k] *= scale[j];
      }
      batch.store(to, c, phi);
    });
  }
}

/// ∂x = ∂y φ'(x) / s, in place, where s counts as a constant. The slope φ'(x) is φ(x) ≤ 1 where x < 0, and 1
/// elsewhere.
template <class ThreadGroup, class E, class T>
__global__ void differentiate_elu_rows(HeadSizes all, HeadRows<E> gradients, HeadRows<const E> ys, const T* inverse) {
  using Batch = RowBatch<ThreadGroup>;
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    const auto load = [&](const auto& rows, int64_t c) { return batch.template load<T>(rows, batch.has, c); };
    T most[kRowBatch];
    for (int j = 0; j < kRowBatch; ++j) most[j] = batch.has[j] ? inverse[batch.row + j * ThreadGroup::rows] : T{0};
    const auto differentiate = [&](int64_t c) {
      RowPacks<T> g = load(gradients, c);
      const RowPacks<T> y = load(ys, c);
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) g.of[j].of[k] *= min(y.of[j].of[k], most[j]);
      }
      batch.store(gradients, c, g);
    };
    differentiate(batch.column());
    batch.for_further_packs(differentiate);
  }
}

/// Calls `f(group, element, computed)` with the thread group for rows of x, and with zeros of the type of its
/// elements and of the type in which they are computed.
template <class F>
void for_rows(const HeadSizes& all, DType dtype, F f) {
  dispatch_computed(dtype, [&](auto element, auto computed) {
    for_row_group(all.width, [&](auto group) { f(group, element, computed); });
  });
}

}  // namespace

MappedRows::MappedRows(RowMap map, bool queries, const View& x, const View* padding_mask, FirstQuery first)
    : map_(map),
      dtype_(x.dtype),
      y_(numel(x) * size_of(x.dtype)),
      inverse_(numel(x) / x.shape[3] * size_of(computed_in(x.dtype))) {
  std::copy_n(x.shape, 4, shape_);
  int64_t stride = 1;
  for (int d = 3; d >= 0; --d) {
    strides_[d] = stride;
    stride *= shape_[d];
  }
  const HeadSizes all(x);
  for_rows(all, dtype_, [&](auto group, auto element, auto computed) {
    using G = decltype(group);
    using E = decltype(element);
    using T = decltype(computed);
    const PaddingMask mask(padding_mask);
    const HeadRows<const E> from(x);
    const HeadRows<E> to(view());
    T* const inverse = reinterpret_cast<T*>(inverse_.data());
    const int64_t tasks = RowBatch<G>::tasks(all);
    if (map_ == RowMap::standardise) {
      launch(standardise_rows<G, E, T>, tasks, kThreads, all, first, mask, from, to, inverse);
    } else {
      launch(make_elu_rows<G, E, T>, tasks, kThreads, all, first, mask, from, to, inverse, queries);
    }
  });
}

void MappedRows::differentiate(const View& gradients) const {
  const HeadSizes all(gradients);
  for_rows(all, dtype_, [&](auto group, auto element, auto computed) {
    using G = decltype(group);
    using E = decltype(element);
    using T = decltype(computed);
    const auto kernel = map_ == RowMap::standardise ? differentiate_rows<G, E, T> : differentiate_elu_rows<G, E, T>;
    launch(kernel, RowBatch<G>::tasks(all), kThreads, all, HeadRows<E>(gradients), HeadRows<const E>(view()),
           reinterpret_cast<const T*>(inverse_.data()));
  });
}

}  // namespace linnet::cuda
