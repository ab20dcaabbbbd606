#include <linnet/cuda/device/kernel.cuh>

/// Scores of a few sampled keys for each query, with a thread for each score. The keys are read in place, without
/// gathering them. The rows that the threads of a warp read come from the L2 cache.

namespace linnet::cuda {
namespace {

/// Strides of q and k [B, H, N, D], and of the index [B, N, u].
struct SampledStrides {
  int64_t q[3], k[3], index[3];
};

template <class T>
__global__ void score_samples(int64_t count, int64_t heads, int64_t queries, int64_t samples, int64_t width,
                              SampledStrides strides, const T* q, const T* k, const int64_t* index, T* out) {
  for (int64_t item = first_item(); item < count; item += item_step()) {
    int64_t b = item;
    const int64_t t = take_inner(b, samples), h = take_inner(b, heads), i = take_inner(b, queries);
    const int64_t key = index[b * strides.index[0] + i * strides.index[1] + t * strides.index[2]];
    const T* query_row = q + b * strides.q[0] + h * strides.q[1] + i * strides.q[2];
    const T* key_row = k + b * strides.k[0] + h * strides.k[1] + key * strides.k[2];
    T sum{};
    for (int64_t d = 0; d < width; ++d) sum += query_row[d] * key_row[d];
    out[item] = sum;
  }
}

void sampled_scores(View out, View q, View k, View index) {
  const SampledStrides strides{{q.strides[0], q.strides[1], q.strides[2]},
                               {k.strides[0], k.strides[1], k.strides[2]},
                               {index.strides[0], index.strides[1], index.strides[2]}};
  dispatch_floating(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = numel(out);
    launch(score_samples<T>, blocks_for(count), kThreads, count, q.shape[1], q.shape[2], out.shape[3], q.shape[3],
           strides, data<const T>(q), data<const T>(k), data<const int64_t>(index), data<T>(out));
  });
}

}  // namespace

void fill_sampled_scores(Backend& table) { table.sampled_scores = sampled_scores; }

}  // namespace linnet::cuda
