#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

/// Checks and layouts that the attention ops share, of tensors [B, H, N, D]: batch, heads, tokens, width of a head.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Checks that x has rank 4.
///
/// Throws: ShapeError.
void check_heads(const Tensor& x, const char* name);

/// Checks that `mask` is undefined, or bool [B, N] for x [B, H, N, D] or [B, N, C] and on its device. Error messages
/// contain its `meaning`, such as "false where a token is padding".
///
/// Throws: ShapeError, DTypeError, DeviceError.
void check_token_mask(const Tensor& mask, const char* mask_name, const char* meaning, const Tensor& x,
                      const char* name);

/// Checks that `padding_mask` is undefined, or bool [B, N] for x [B, H, N, D] or [B, N, C] and on its device.
///
/// Throws: ShapeError, DTypeError, DeviceError.
void check_padding_mask(const Tensor& padding_mask, const Tensor& x, const char* name);

/// Checks that q is [B, H, N, D], k and v are [B, H, M, D], and `padding_mask` fits k.
///
/// Throws: ShapeError, and as check_padding_mask.
void check_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask);

/// Checks that q is floating, and that k and v have its dtype.
///
/// Throws: DTypeError.
void check_dtypes(const Tensor& q, const Tensor& k, const Tensor& v);

/// Checks that the dropout rate is in [0, 1], and that there is a generator if it is not 0.
///
/// Throws: ValueError.
void check_dropout(double rate, const Generator* generator);

/// The factor of q·k: `scale`, or 1/√D for heads of width D.
///
/// Throws: ValueError for one that is not finite.
double attention_scale(std::optional<double> scale, int64_t width);

/// A bool mask for scores [B, H, N, M]: true where a query may not see a key, because the key is padding or, when
/// causal, comes after key i + (M − N) of query i. Undefined when all keys are seen.
Tensor unseen(int64_t queries, int64_t keys, const Tensor& padding_mask, bool causal, Device device);

/// Where either mask is true; one of them where the other is undefined.
Tensor either(const Tensor& mask, const Tensor& other);

/// x [B, H, N, D] with 0 in padded tokens, so that their contents, even NaN, reach no sum or gradient.
Tensor without_padding(const Tensor& x, const Tensor& padding_mask);

/// The softmax of scores [B, H, N, M] over the keys where `unseen` is false; 0 for the others, and in rows without
/// keys.
Tensor masked_softmax(const Tensor& scores, const Tensor& unseen);

/// scale · q·k, with the scale from attention_scale.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D] → [B, H, N, M].
/// Dtypes: float32 for bfloat16.
/// Throws: ValueError for a scale that is not finite.
Tensor attention_scores(const Tensor& q, const Tensor& k, std::optional<double> scale);

/// The softmax over the keys of the attention_scores, as masked_softmax.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D] → [B, H, N, M].
/// Dtypes: float32 for bfloat16.
/// Throws: ValueError for a scale that is not finite.
Tensor softmax_weights(const Tensor& q, const Tensor& k, std::optional<double> scale, const Tensor& unseen);

/// Rows `index` of the tokens of x, in memory [B, M, H, D]. The index is not checked, nor is that of `sums_at`.
///
/// Shapes: x [B, H, N, D], index [B or 1, H or 1, M] → [B, H, M, D].
/// Dtypes: index is int64.
Tensor tokens_at(const Tensor& x, const Tensor& index);

/// The gradient of the x of `tokens_at` from that of its result: row n is the sum of the rows of g whose index is n.
///
/// Shapes: g [B, H, M, D], index [B or 1, H or 1, M] → [B, H, `tokens`, D], in memory [B, `tokens`, H, D].
/// Dtypes: index is int64; sums of bfloat16 are in float32.
Tensor sums_at(const Tensor& g, const Tensor& index, int64_t tokens);

/// x, of rank 2 or more, without history, in the layout that kernels take: unit stride in the last dim, and rows that
/// do not overlap. It is copied only if it has another layout.
Tensor with_plain_rows(const Tensor& x);

/// Whether all of x are bfloat16. Where no kernel takes bfloat16, `attend_in_float32` converts.
bool are_bfloat16(const std::vector<Tensor>& x);

/// The result of `attend` on x [B, H, N, D] in float32, converted to bfloat16. A tensor that occurs twice is
/// converted once, so that its gradients are added in float32.
Tensor attend_in_float32(const std::vector<Tensor>& x,
                         const std::function<Tensor(const std::vector<Tensor>&)>& attend);

/// An uninitialised tensor of shape [B, H, N, D], in memory [B, N, H, D], so that merging its heads to [B, N, H·D]
/// copies nothing.
Tensor empty_heads(const Shape& shape, DType dtype, Device device);

/// Uninitialised gradients of the tensors x, with the layout of empty_heads. Where the x are adjacent views of one
/// tensor [B, N, count, H, D], because one projection made them all, so are their gradients, which then need no
/// concatenation.
std::vector<Tensor> empty_gradients(const std::vector<Tensor>& x);

}  // namespace detail
}  // namespace linnet
