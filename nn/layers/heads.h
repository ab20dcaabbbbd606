#pragma once

#include <linnet/core/tensor.h>

/// Conversions between tokens [B, N, C] and heads [B, H, N, D]: batch B, N tokens, H heads of D numbers, C = H·D.

namespace linnet::nn {

/// A view of x by head.
///
/// Shapes: [B, N, C] → [B, H, N, D].
/// Throws: ShapeError unless `heads` divides C.
Tensor split_heads(const Tensor& x, int64_t heads, Where where = {});

/// The heads of each token, side by side. The result is a view if they already are side by side in memory, as in the
/// results of attention; otherwise a copy.
///
/// Shapes: [B, H, N, D] → [B, N, C].
Tensor merge_heads(const Tensor& x, Where where = {});

/// Queries, keys and values, each [B, H, N, D].
struct Qkv {
  Tensor q, k, v;  ///< queries, keys and values of all heads
};

/// Splits the result of one projection into views of queries, keys and values. In the last dim all queries come
/// first, then all keys, then all values, each ordered by head.
///
/// Shapes: [B, N, 3·C] → [B, H, N, D] each.
/// Throws: ShapeError for a width that is not a multiple of 3·heads.
Qkv split_qkv(const Tensor& projected, int64_t heads, Where where = {});

}  // namespace linnet::nn
