#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Reformer's attention: a token sees the tokens that locality-sensitive hashing puts near it.
///
/// Source: Kitaev et al. 2020, "Reformer: The Efficient Transformer".

namespace linnet {

/// Options of lsh_attention: which tokens see which.
struct LshAttentionOptions {
  int64_t chunk = 64;  ///< m: tokens of a chunk
  /// Token i sees no token after it.
  bool causal = false;
  /// The factor of q·k. It is 1 because keys have length 1.
  double scale = 1;
  /// Bool [B, N]: false where a token is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// The rate, in [0, 1], at which weights are dropped after normalisation. Kept weights are scaled by
  /// 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Draws the dropout masks, one for each round. Unused without dropout.
  Generator* generator = nullptr;
  /// The form of Hugging Face's LSHSelfAttention and of the Long Range Arena. There a token also sees tokens of other
  /// buckets, and a token that it sees in several rounds counts several times. The chunk before the first one of a
  /// round is the last one of the round before; for the first round, of the last round. This form is composed of ops:
  /// memory O(B·H·R·N·chunk), no dropout, and the chunk must divide N.
  bool released = false;
};

/// The number of buckets for N tokens, padding included, in chunks of m: the largest even number up to max(2, ⌈N/m⌉).
///
/// Throws: ValueError for a chunk below 1.
int64_t lsh_bucket_count(int64_t tokens, int64_t chunk, Where where = {});

/// Random rotations [H, D, R, buckets/2] from N(0, 1), for `hashes` rounds R. Takes one draw.
///
/// Dtypes: float32 or float64.
/// Throws: ValueError for fewer than 1 round, and for an odd number of buckets or fewer than 2; DTypeError for other
/// dtypes.
Tensor lsh_rotations(int64_t heads, int64_t head_dim, int64_t hashes, int64_t buckets, Generator& generator,
                     DType dtype = DType::float32, Device device = Device::cpu, Where where = {});

/// The bucket of each token in each round: the index of the largest entry of [x·Ω, −x·Ω], the first among equals.
///
/// Shapes: x [B, H, N, D], `rotations` Ω [H, D, R, buckets/2] → [B, H, R, N].
/// Dtypes: one floating dtype → int64.
/// Gradient: none.
/// Cost: time O(B·H·N·R·buckets·D); tokens are taken in blocks, which bounds the memory.
/// Throws: ShapeError, DTypeError, DeviceError.
/// Source: Kitaev et al. 2020, section 2.
Tensor lsh_buckets(const Tensor& x, const Tensor& rotations, Where where = {});

/// The keys, where queries and keys are shared: x/‖x‖, computed as x·rsqrt(mean(x²) + 1e-6)/√D, so that 0 gives 0.
///
/// Gradient: any number of times.
Tensor lsh_keys(const Tensor& x, Where where = {});

/// o_i = Σ_j softmax_j(s_ij) v_j over the tokens that token i sees in any round, with s_ij = scale · q_i·k_j and k =
/// lsh_keys(q).
///
/// In each round tokens are sorted by bucket, then by position, and cut into chunks. A token sees those of its bucket
/// in its own chunk and in the one before. It sees itself only where it sees nothing else: its own score is −50,000.
/// A token j that token i sees in c_ij rounds counts once. That equals the paper's weighted sum of rounds with ln
/// c_ij subtracted from the scores. No token sees padding, and the rows of padding are 0.
///
/// Shapes: q and v [B, H, N, D], `buckets` [B, H, R, N] as lsh_buckets gives them → [B, H, N, D].
/// Dtypes: one floating dtype for q and v; `buckets` is int64, with any numbers below 2⁶³ − 1, by which tokens are
/// sorted.
/// Gradient: once (fused); none through the buckets.
/// Cost: time O(B·H·R·N·chunk·D); memory apart from the result O(B·H·N·(D + R)).
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a chunk below 1, a scale or dropout out of range, and
/// with `released` a dropout or a chunk that does not divide N.
/// Source: Kitaev et al. 2020, section 2, eqs. 2–6.
Tensor lsh_attention(const Tensor& q, const Tensor& v, const Tensor& buckets, const LshAttentionOptions& options = {},
                     Where where = {});

/// The matrix of the weights with which lsh_attention sums the values. Rows sum to 1, or to 0 for padding. For
/// inspection: `dropout` is ignored.
///
/// Shapes: q [B, H, N, D], `buckets` [B, H, R, N] → [B, H, N, N].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N²·D), memory O(B·H·N²).
/// Throws: as lsh_attention.
Tensor lsh_attention_weights(const Tensor& q, const Tensor& buckets, const LshAttentionOptions& options = {},
                             Where where = {});

}  // namespace linnet
