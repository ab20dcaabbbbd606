#pragma once

#include <vector>

#include <linnet/core/tensor.h>
#include <linnet/ops/attention/lsh_attention.h>

/// The rounds of lsh_attention (Kitaev et al. 2020, section 2): each round sorts the tokens by a hash of its own, and
/// a token sees those of its bucket in its chunk and the one before.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// The tokens of one round in the order of their buckets. Tokens that are padding come last.
struct LshRound {
  Tensor order;   ///< int64 [B, H, N]: the position of each sorted token
  Tensor ranges;  ///< int64 [B, H, N, 2]: the sorted tokens that each sorted token sees
  Tensor codes;   ///< int32 [B, H, r, N]: AttentionMask::codes of sorted tokens, for the r rounds before

  /// int64 [B, H, N]: the place of each token among the sorted ones. It is cheaper to compute it again than to keep
  /// it for backward.
  Tensor inverse() const;
};

/// All rounds of a call, for buckets [B, H, R, N]; none where these are empty. They are computed by ops on the device
/// of `buckets`, so that a Recording can repeat that.
std::vector<LshRound> lsh_rounds(const Tensor& buckets, const LshAttentionOptions& options);

}  // namespace detail
}  // namespace linnet
