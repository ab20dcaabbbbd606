#pragma once

#include <string_view>
#include <vector>

#include <linnet/core/tensor.h>

/// Matrix products. Transposed operands are used without a copy.
///
/// Dtypes: one floating dtype, but see `linear`.
/// Gradient: any number of times.
/// Cost: a product [M, K] · [K, N] takes 2·M·N·K operations, and its backward twice as many.
/// Throws: DTypeError for other dtypes.

namespace linnet {

/// a · b over the last dim of `a` and the second to last of `b`.
///
/// Shapes: [..., M, K] · [..., K, N] → [..., M, N], where leading dims broadcast. A vector [K] counts as a row on the
/// left and as a column on the right, and its dim of size 1 is removed from the result.
/// Throws: ShapeError for inner dims that differ, leading ones that do not broadcast, and rank 0.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = {});

/// x · weightᵀ + bias, or x · weightᵀ without a bias.
///
/// Shapes: x [..., in], weight [out, in], bias [out] → [..., out].
/// Dtypes: one floating dtype; for bfloat16 x, weight and bias are float32 and rounded for the product. Their
/// gradients are float32.
/// Cost: one product over all rows.
/// Throws: ShapeError for shapes that do not fit, with the remedy.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Where where = {});

/// Einstein's summation over any number of tensors, as in NumPy and PyTorch:
///
///     einsum("bij,bjk->bik", a, b);    // products of matrices
///     einsum("ii->i", x);              // a diagonal
///     einsum("ii->", x);               // a trace
///     einsum("...ij->...ji", x);       // "..." stands for any leading dims
///     einsum("i,ij,j->", {x, a, y});
///
/// A term names each dim of a tensor with a letter. Dims of the same letter are multiplied, and letters that are not
/// after the arrow are summed over. A letter twice in one term takes the diagonal of these dims. The dims of "..."
/// broadcast, as do dims of size 1. Without an arrow the result has the dims of "...", and then the letters that
/// occur once, capitals first, in alphabetical order.
///
/// Dtypes: one floating dtype; any dtype for one tensor.
/// Cost: tensors are multiplied two at a time, always the pair whose product takes the fewest multiplications. Each
/// pair takes one matrix product, or `mul` where that is enough, after copies where dims must be reordered.
/// Throws: ValueError for an equation that cannot be read or names another number of tensors; ShapeError when it does
/// not fit their shapes.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, Where where = {});
Tensor einsum(std::string_view equation, const Tensor& x, Where where = {});
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b, Where where = {});

/// a[i] · b[j].
///
/// Shapes: [N], [M] → [N, M].
/// Dtypes: one dtype, any but bool.
/// Cost: one pass over the result.
/// Throws: ShapeError for other ranks.
Tensor outer(const Tensor& a, const Tensor& b, Where where = {});

/// A view with the last two dims exchanged.
///
/// Shapes: [..., M, N] → [..., N, M].
/// Dtypes: any.
/// Throws: ShapeError for rank 0 and 1.
Tensor transpose(const Tensor& x, Where where = {});

}  // namespace linnet
