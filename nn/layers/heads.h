#pragma once

#include <linnet/core/tensor.h>

/// Between the width of a model and its heads: B batch, N tokens, H heads, D numbers per head, C = H·D.

namespace linnet::nn {

/// [B, N, C] → [B, H, N, D], a view. `heads` must divide C: else ShapeError.
Tensor split_heads(const Tensor& x, int64_t heads, Where where = {});

/// [B, H, N, D] → [B, N, C]; a view where the heads of a token lie together, as attention leaves them.
Tensor merge_heads(const Tensor& x, Where where = {});

/// Queries, keys and values, each [B, H, N, D].
struct Qkv {
  Tensor q, k, v;
};

/// The result [B, N, 3·C] of one projection: first all queries, then all keys, then all values, each ordered
/// by head. Views. Throws ShapeError for a width that is no multiple of 3·heads.
Qkv split_qkv(const Tensor& projected, int64_t heads, Where where = {});

}  // namespace linnet::nn
