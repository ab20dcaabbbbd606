#include <linnet/nn/softmax_attention.h>

#include <linnet/nn/positions.h>
#include <linnet/ops/attention.h>
#include <linnet/ops/join.h>

namespace linnet::nn {

namespace {

/// Keys and values of the tokens so far, [B, H, T, D].
struct KeysAndValues : AttentionState {
  Tensor k, v;
  ShortConvolution::State conv;
};

}  // namespace

SoftmaxAttention::SoftmaxAttention(Module& parent, std::string name, const AttentionConfig& config)
    : Attention(parent, std::move(name), config),
      qkv_(*this, "qkv", config.width, 3 * config.width, config.bias),
      out_(*this, "out", config.width, config.width, config.bias) {
  refuse_fastformer_options();
  if (config.short_conv > 0) conv_.emplace(*this, "conv", 3 * config.width, config.short_conv, config.causal);
}

Qkv SoftmaxAttention::project(const Tensor& x, const Tensor& keep) const {
  Tensor projected = qkv_(x);
  if (conv_) projected = (*conv_)(projected, keep);
  auto [q, k, v] = split_qkv(projected, config().heads);
  if (config().rotary) q = rotate(q), k = rotate(k);
  return {q, k, v};
}

Tensor SoftmaxAttention::forward(const Tensor& x, const Tensor& keep) const {
  const auto [q, k, v] = project(x, keep);
  const Tensor o = softmax_attention(q, k, v,
                                     {.causal = config().causal,
                                      .keep = keep,
                                      .dropout = training() ? config().dropout : 0,
                                      .generator = &generator()});
  return out_(merge_heads(o));
}

std::vector<AttentionMap> SoftmaxAttention::forward_maps(const Tensor& x, const Tensor& keep) const {
  const auto [q, k, v] = project(x, keep);
  return {{"", softmax_attention_weights(q, k, {.causal = config().causal, .keep = keep})}};
}

std::unique_ptr<AttentionState> SoftmaxAttention::start_state() const { return std::make_unique<KeysAndValues>(); }

Tensor SoftmaxAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = as<KeysAndValues>(state);
  Tensor projected = qkv_(x);
  if (conv_) projected = conv_->step(past.conv, projected);
  auto [q, k, v] = split_qkv(projected, config().heads);
  if (config().rotary) q = rotate(q, state.tokens()), k = rotate(k, state.tokens());
  past.k = past.k.defined() ? concat({past.k, k}, 2) : k;
  past.v = past.v.defined() ? concat({past.v, v}, 2) : v;
  return out_(merge_heads(softmax_attention(q, past.k, past.v)));
}

}  // namespace linnet::nn
