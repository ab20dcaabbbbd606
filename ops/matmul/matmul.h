#pragma once

#include <string_view>
#include <vector>

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

/// Einstein's summation, as in NumPy and PyTorch, over any number of tensors:
///
///     einsum("bij,bjk->bik", a, b)            // products of matrices
///     einsum("ii->i", x), einsum("ii->", x)   // a diagonal, a trace
///     einsum("...ij->...ji", x)               // "..." stands for any leading dims
///     einsum("i,ij,j->", {x, a, y})
///
/// A term names the dims of a tensor, by one letter each. Multiplies where letters are the same, and sums over those
/// that are not after the arrow. A letter twice in one term takes the diagonal of these dims. The dims of "..."
/// broadcast, as do dims of size 1. Without an arrow the result has the dims of "...", and then the letters that
/// occur once, capitals first, in alphabetical order.
///
/// Several tensors are multiplied two at a time, those first whose product takes the fewest multiplications. Each is
/// one matrix product, after copies of what must be put into order for it. Products are of floating tensors of one
/// dtype; of one tensor any dtype is taken. Throws ValueError for an equation that cannot be read or names another
/// number of tensors, and ShapeError when it does not fit their shapes.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Where where = {});
Tensor einsum(std::string_view equation, const Tensor& x, Where where = {});
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where = {});

/// The last two dims exchanged: [..., M, N] → [..., N, M]. A view. Any dtype. Throws ShapeError for rank 0 and 1.
Tensor transpose(const Tensor& x, Where where = {});

}  // namespace linnet
