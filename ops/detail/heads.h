#pragma once

#include <functional>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// What the attention ops share: checks and layouts of tensors [B, H, N, D] (batch, heads, tokens, width of a
/// head).

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Throws ShapeError unless x has rank 4.
void check_heads(const Tensor& x, const char* name);

/// Throws unless `padding_mask` is undefined or bool [B, N], for x [B, H, N, D] or [B, N, C] and on its device.
void check_padding_mask(const Tensor& padding_mask, const Tensor& x, const char* name);

/// Throws unless q is [B, H, N, D], k and v are [B, H, M, D], and `padding_mask` is as check_keep says.
void check_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask);

/// Throws ValueError unless the rate of dropout is in [0, 1], and there is a generator if it is not 0.
void check_dropout(double rate, const Generator* generator);

/// Bool, for scores [B, H, N, M] of N queries and M keys: true where a query may not see a key, because that is
/// padding or, when causal, comes later (query i sees keys up to i + (M − N)). Undefined when all are seen.
Tensor unseen(int64_t queries, int64_t keys, const Tensor& padding_mask, bool causal, Device device);

/// x [B, H, N, D] with 0 where `padding_mask` says padding, whose contents, be they NaN, then reach no sum or
/// gradient.
Tensor without_padding(const Tensor& x, const Tensor& padding_mask);

/// softmax of scores [B, H, N, M] over the keys that `unseen` leaves; 0 for those, and in rows without any.
Tensor masked_softmax(const Tensor& scores, const Tensor& unseen);

/// x, of rank 2 or more, without history and as kernels take it, with unit stride in its last dim and rows that do
/// not overlap; a copy only when it is not so.
Tensor with_plain_rows(const Tensor& x);

/// Whether all of x are bfloat16, which `attend_in_float32` is for where there is no kernel that takes it.
bool are_bfloat16(const std::vector<Tensor>& x);

/// `attend` of the same in float32, made bfloat16 again: x [B, H, N, D] and its result. A tensor that is given twice
/// is converted once, so that its gradients are added in float32.
Tensor attend_in_float32(const std::vector<Tensor>& x,
                         const std::function<Tensor(const std::vector<Tensor>&)>& attend);

/// An uninitialised tensor of shape [B, H, N, D] that lies in memory as [B, N, H, D], so that joining its
/// heads to [B, N, H·D] copies nothing.
Tensor empty_heads(const Shape& shape, DType dtype, Device device);

/// The same for the gradient of each of x; but where they lie in memory as one tensor [B, N, parts, H, D], so that
/// one projection makes them all, so do their gradients, and nobody need copy these together.
std::vector<Tensor> empty_gradients(const std::vector<Tensor>& x);

}  // namespace detail
}  // namespace linnet
