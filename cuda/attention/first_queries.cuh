#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>
#include <linnet/cuda/device/scratch.cuh>

/// Queries that see no key, be it that all are padding, or, when causal, that those up to there are: whatever they
/// hold, it is nothing, and is to reach no one else.

namespace linnet::cuda {

/// As kernels are passed it: the first query of sequence b that sees a key, with those behind it.
struct FirstQuery {
  int64_t everywhere = 0;
  const int64_t* of_sequence = nullptr;  ///< where there is padding

  __device__ int64_t of(int64_t b) const { return of_sequence == nullptr ? everywhere : of_sequence[b]; }
};

class FirstQueries {
 public:
  /// Of q [B, H, N, D] and k [B, H, M, D], with padding where `padding_mask` [B, M], if there is one, is false. When
  /// causal, query i sees the keys up to i + M − N.
  FirstQueries(const View& q, const View& k, const View* padding_mask, bool causal);

  FirstQuery of() const { return {everywhere_, of_sequence_.data()}; }

 private:
  int64_t everywhere_;
  Scratch<int64_t> of_sequence_;
};

}  // namespace linnet::cuda
