#pragma once

#include <string_view>

#include <linnet/core/tensor.h>

/// Matrix products, of floating tensors of one dtype (DTypeError otherwise, but for `linear`). Transposed operands
/// are used where they lie. A product [M, K] · [K, N] takes 2·M·N·K operations, and its backward twice as many.

namespace linnet {

/// a · b over the last dim of `a` and the second to last of `b`: [..., M, K] · [..., K, N] → [..., M, N],
/// where the leading dims broadcast. A vector [K] counts as a row on the left and as a column on the right,
/// and the dim of size 1 is gone from the result. Throws ShapeError for inner dims that differ, leading ones
/// that do not broadcast, and rank 0.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = {});

/// x · weightᵀ + bias: [..., in], [out, in] and, when there is one, [out] → [..., out]. One product over all rows.
/// Beside x of bfloat16, weight and bias are float32, and are rounded for the product; their gradients are float32.
/// Throws ShapeError for shapes that do not fit, naming the remedy.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Where where = {});

/// Einstein's summation over two tensors: `einsum("bij,bjk->bik", a, b)` sums over the labels that are not
/// after the arrow. A label is one letter; without an arrow the result has those that occur once, in
/// alphabetical order. One matrix product, after copies of what must be put into order for it. Throws ValueError for
/// an equation that cannot be read, or with a label twice in one term (a diagonal), and ShapeError when it does not
/// fit the tensors.
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where = {});

/// The last two dims exchanged: [..., M, N] → [..., N, M]. A view. Any dtype. Throws ShapeError for rank 0 and 1.
Tensor transpose(const Tensor& x, Where where = {});

}  // namespace linnet
