#include <linnet/ops/attention/linformer_attention.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

void check_projection(const Tensor& projection, const char* name, const Tensor& k) {
  if (projection.rank() != 2) {
    throw ShapeError(fmt::format("{}{} has rank {}; [slots, tokens] is needed", name, to_string(projection.shape()),
                                 projection.rank()));
  }
  if (projection.dtype() != computed_in(k.dtype())) {
    throw DTypeError(fmt::format("{} is {}; beside k of {} it must be {}", name, name_of(projection.dtype()),
                                 name_of(k.dtype()), name_of(computed_in(k.dtype()))));
  }
  if (projection.size(1) < k.size(2)) {
    throw ValueError(fmt::format("{} tokens, but {}{} projects {} at most; give fewer tokens, or build it for more",
                                 k.size(2), name, to_string(projection.shape()), projection.size(1)));
  }
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& e, const Tensor& f,
           const Tensor& padding_mask) {
  detail::check_qkv(q, k, v, padding_mask);
  check_projection(e, "e", k);
  check_projection(f, "f", k);
  detail::check_same_shape(f, "f", e, "e");
}

/// The slots of x [B, H, M, D], projection · x along the tokens, [B, H, K, D]. One matrix product computes them for
/// all sequences and heads.
Tensor slots(const Tensor& projection, const Tensor& x, const Tensor& padding_mask) {
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  Tensor rows = x.permute({2, 0, 1, 3});
  if (padding_mask.defined()) {
    rows = masked_fill(rows, logical_not(padding_mask).transpose(0, 1).reshape({tokens, batch, 1, 1}), 0);
  }
  const Tensor sums = matmul(projection.narrow(1, 0, tokens).to(x.dtype()),  // [Wang eq.7]
                             rows.reshape({tokens, batch * heads * width}));
  return sums.reshape({projection.size(0), batch, heads, width}).permute({1, 2, 0, 3});
}

/// Which slots [B, K] are seen: all of them, unless a whole sequence is padding. Undefined without padding.
Tensor seen_slots(const Tensor& padding_mask, int64_t count) {
  if (!padding_mask.defined()) return {};
  return any(padding_mask, {1}, true).expand({-1, count}).contiguous();
}

}  // namespace

Tensor linformer_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& e, const Tensor& f,
                           const LinformerAttentionOptions& options, Where where) {
  const Call call("linformer_attention", where);
  check(q, k, v, e, f, options.padding_mask);
  return softmax_attention(q, slots(e, k, options.padding_mask), slots(f, v, options.padding_mask),
                           {.scale = options.scale,
                            .padding_mask = seen_slots(options.padding_mask, e.size(0)),
                            .dropout = options.dropout,
                            .generator = options.generator});
}

Tensor linformer_attention_weights(const Tensor& q, const Tensor& k, const Tensor& e, const Tensor& f,
                                   const LinformerAttentionOptions& options, Where where) {
  const Call call("linformer_attention_weights", where);
  check(q, k, k, e, f, options.padding_mask);
  const Tensor of_slots = softmax_attention_weights(
      detail::in_computed(q), slots(e, detail::in_computed(k), options.padding_mask),
      {.scale = options.scale, .padding_mask = seen_slots(options.padding_mask, e.size(0))});
  Tensor of_tokens = matmul(of_slots, f.narrow(1, 0, k.size(2)));
  if (!options.padding_mask.defined()) return of_tokens;
  return masked_fill(of_tokens, logical_not(options.padding_mask).unsqueeze(1).unsqueeze(1), 0);
}

}  // namespace linnet
