#include <linnet/cuda/attention/first_queries.cuh>

#include <algorithm>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>

namespace linnet::cuda {
namespace {

struct SequenceSizes {
  int64_t count, queries, keys;
  bool causal;

  /// The first query that sees key j. For j beyond the last key it is `queries`, which is no query.
  __host__ __device__ int64_t first_that_sees(int64_t j) const {
    if (j >= keys) return queries;
    const int64_t i = causal ? j + queries - keys : 0;
    return i < 0 ? 0 : i;
  }
};

/// A warp for each sequence reads the mask up to the first key that is not padding. The latency of memory bounds it.
__global__ void find_first_queries(SequenceSizes in, PaddingMask padding_mask, int64_t* first) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t b = Warp::first_row(); b < in.count; b += Warp::row_step()) {
    int64_t key = in.keys;
    for (int64_t j = Warp::lane(); j - Warp::lane() < in.keys && key == in.keys; j += kWarp) {
      const bool is_key = j < in.keys && padding_mask.has(b, j);
      key = reduce_lanes<kWarp>(is_key ? j : in.keys, Minimum());
    }
    if (Warp::lane() == 0) first[b] = in.first_that_sees(key);
  }
}

}  // namespace

FirstQueries::FirstQueries(const View& q, const View& k, const View* padding_mask, bool causal)
    : everywhere_(SequenceSizes{q.shape[0], q.shape[2], k.shape[2], causal}.first_that_sees(0)),
      of_sequence_(padding_mask == nullptr ? 0 : q.shape[0]) {
  if (padding_mask == nullptr) return;
  const SequenceSizes in{q.shape[0], q.shape[2], k.shape[2], causal};
  launch(find_first_queries, ceil_div(in.count, ThreadGroup<kWarp>::rows), kThreads, in, PaddingMask(padding_mask),
         of_sequence_.data());
}

}  // namespace linnet::cuda
