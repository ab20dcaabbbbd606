#include <linnet/ops/attention/linear_attention.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/elementwise.h>
#include <linnet/ops/detail/fastmax_forms.h>
#include <linnet/ops/detail/fastmax_reference.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {
namespace {

/// φ(q), divided by the sum of its entries. The factor is in the numerator and the denominator of the result, so it
/// needs no gradient.
Tensor query_features(const Tensor& q) {
  const Tensor phi = linear_attention_features(q);
  return phi / sum(phi.detach(), {-1}, true);
}

void check_dropout(const LinearAttentionOptions& options) {
  detail::check_dropout(options.dropout, options.generator);
  if (options.dropout == 1) throw ValueError("dropout is 1; it must be below 1");
  if (options.dropout > 0 && options.form == FastmaxForm::reference) {
    throw ValueError(
        fmt::format("dropout is {}, but the reference form has none; choose another form", options.dropout));
  }
}

/// The weights φ(q)·φ(k) as a polynomial of that product. Causal sums are over j ≤ i.
FastmaxParams params_of(const LinearAttentionOptions& options) {
  return {.a0 = 0,
          .a1 = 1,
          .a2 = 0,
          .map = RowMap::elu_plus_one,  // [Katharopoulos eq.7]
          .causal = options.causal,
          .keep_of_256 = detail::bytes_kept(options.dropout),
          .dropout = FastmaxDropout::token,
          .shared_denominator = false,
          .q_rng = {},
          .k_rng = {}};
}

}  // namespace

Tensor linear_attention_features(const Tensor& x, Where where) {
  Op op("linear_attention_features", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::elu_plus_one, x),  // [Katharopoulos eq.7]
                   [x = op.save(x)](const Tensor& g) { return Grads{detail::elu_backward(g, x())}; });
}

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearAttentionOptions& options,
                        Where where) {
  const Call call("linear_attention", where);
  detail::check_qkv(q, k, v, options.padding_mask);
  check_dropout(options);
  if (options.form == FastmaxForm::reference && detail::are_bfloat16({q, k, v})) {
    return detail::attend_in_float32({q, k, v},
                                     [&](const auto& x) { return linear_attention(x[0], x[1], x[2], options); });
  }
  FastmaxParams params = params_of(options);
  if (options.dropout > 0) {
    params.q_rng = options.generator->next();
    params.k_rng = options.generator->next();
  }
  const FastmaxForm form = detail::fastmax_form_for(options.form, q, k, params);
  if (form != FastmaxForm::reference) return detail::fastmax_in(form, q, k, v, options.padding_mask, params);
  params.map = RowMap::none;
  return detail::fastmax_in(form, query_features(q), linear_attention_features(k), v, options.padding_mask, params);
}

Tensor linear_attention_weights(const Tensor& q, const Tensor& k, const LinearAttentionOptions& options,
                                Where where) {
  const Call call("linear_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  FastmaxParams params = params_of(options);
  params.map = RowMap::none;
  return detail::fastmax_reference_weights(query_features(detail::in_computed(q)),  // [Katharopoulos eq.4]
                                           linear_attention_features(detail::in_computed(k)), options.padding_mask,
                                           params);
}

}  // namespace linnet
