#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>
#include <linnet/cuda/device/scratch.cuh>

/// Queries that see no key, because all keys are padding or, when causal, all keys up to the query's position.
/// Kernels never read such a query, so that its content, even NaN, cannot reach a result.

namespace linnet::cuda {

/// A kernel argument: the first query of each sequence that sees a key. All later queries see a key too.
struct FirstQuery {
  int64_t everywhere = 0;
  const int64_t* of_sequence = nullptr;  ///< [B]; null without padding

  __device__ int64_t of(int64_t b) const { return of_sequence == nullptr ? everywhere : of_sequence[b]; }
};

class FirstQueries {
 public:
  /// For q [B, H, N, D] and k [B, H, M, D]; `padding_mask` [B, M], false for padding, may be null. When causal, query
  /// i sees the keys up to i + M − N.
  FirstQueries(const View& q, const View& k, const View* padding_mask, bool causal);

  FirstQuery of() const { return {everywhere_, of_sequence_.data()}; }

 private:
  int64_t everywhere_;
  Scratch<int64_t> of_sequence_;
};

}  // namespace linnet::cuda
