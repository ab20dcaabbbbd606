#include <linnet/nn/attention/softmax.h>

#include <algorithm>

#include <linnet/core/autograd/tape.h>
#include <linnet/nn/layers/positions.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/attention/attention.h>

namespace linnet::nn {

namespace {

/// Rows of the tokens so far, [B, H, T, D], with capacity for more. A full capacity doubles, so that a text of N
/// tokens copies O(N) rows. While the tape records, each token makes a new tensor instead, because the history of
/// earlier tokens may keep the old one.
class TokenRows {
 public:
  /// Appends one token, [B, H, 1, D], and returns the rows so far.
  Tensor append(const Tensor& row) {
    if (grad_enabled()) {
      room_ = count_ == 0 ? row : concat({so_far(), row}, 2);
    } else {
      if (count_ == 0 || count_ == room_.size(2)) grow(row);
      room_.narrow(2, count_, 1).copy_(row);
    }
    ++count_;
    return so_far();
  }

 private:
  Tensor so_far() const { return room_.narrow(2, 0, count_); }

  void grow(const Tensor& row) {
    Shape shape = row.shape();
    shape[2] = std::max<int64_t>(16, 2 * count_);
    const Tensor larger = zeros(shape, row.dtype(), row.device());  // not `empty`: AnomalyMode checks views of it
    if (count_ > 0) larger.narrow(2, 0, count_).copy_(so_far());
    room_ = larger;
  }

  Tensor room_;
  int64_t count_ = 0;
};

struct KeysAndValues : AttentionState {
  TokenRows k, v;
  ShortConvolution::State conv;
};

}  // namespace

SoftmaxAttention::SoftmaxAttention(Module& parent, std::string name, const AttentionConfig& config)
    : Attention(parent, std::move(name), config),
      qkv_(*this, "qkv", config.width, 3 * config.width, config.bias),
      out_(*this, "out", config.width, config.width, config.bias) {
  if (config.short_conv > 0) conv_.emplace(*this, "conv", 3 * config.width, config.short_conv, config.causal);
}

Qkv SoftmaxAttention::project(const Tensor& x, const Tensor& padding_mask) const {
  Tensor projected = qkv_(x);
  if (conv_) projected = (*conv_)(projected, padding_mask);
  auto [q, k, v] = split_qkv(projected, config().heads);
  if (config().rotary) q = rotate(q), k = rotate(k);
  return {q, k, v};
}

Tensor SoftmaxAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const Tensor o = softmax_attention(q, k, v,
                                     {.causal = config().causal,
                                      .padding_mask = padding_mask,
                                      .dropout = training() ? config().dropout : 0,
                                      .generator = &generator()});
  return out_(merge_heads(o));
}

std::vector<AttentionMap> SoftmaxAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", softmax_attention_weights(q, k, {.causal = config().causal, .padding_mask = padding_mask})}};
}

std::unique_ptr<AttentionState> SoftmaxAttention::start_state() const { return std::make_unique<KeysAndValues>(); }

Tensor SoftmaxAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = dynamic_cast<KeysAndValues&>(state);
  Tensor projected = qkv_(x);
  if (conv_) projected = conv_->step(past.conv, projected);
  auto [q, k, v] = split_qkv(projected, config().heads);
  if (config().rotary) q = rotate(q, state.tokens()), k = rotate(k, state.tokens());
  return out_(merge_heads(softmax_attention(q, past.k.append(k), past.v.append(v))));
}

Mechanism softmax_mechanism() {
  Mechanism m{.name = "softmax", .paper = "Vaswani et al. 2017, eq. 1", .make = maker<SoftmaxAttention>()};
  m.rotary = true;
  m.operations = quadratic_operations;
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              return softmax_attention(q, k, v,
                                       {.causal = config.causal, .dropout = config.dropout, .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
