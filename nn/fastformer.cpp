#include <linnet/nn/fastformer.h>

#include <cmath>

#include <linnet/nn/heads.h>
#include <linnet/nn/init.h>
#include <linnet/ops/arithmetic.h>
#include <linnet/ops/creation.h>
#include <linnet/ops/fastformer.h>
#include <linnet/ops/math.h>
#include <linnet/ops/reduction.h>

namespace linnet::nn {

namespace {

/// The mean of the x so far, weighted by e^score: a running maximum keeps the powers at 1 or below.
struct RunningPool {
  Tensor maximum, total;  // [B, H, 1, 1]: m and z = Σ e^{s − m}
  Tensor sum;             // [B, H, 1, D]: Σ e^{s − m} x

  Tensor add(const Tensor& score, const Tensor& x) {
    if (!maximum.defined()) {
      maximum = score;
      total = ones_like(score);
      sum = x;
    } else {
      const Tensor next = linnet::maximum(maximum, score);
      const Tensor decay = exp(maximum - next), weight = exp(score - next);
      total = decay * total + weight;
      sum = decay * sum + weight * x;
      maximum = next;
    }
    return sum / total;
  }
};

struct Pools : AttentionState {
  RunningPool query, key;
};

}  // namespace

FastformerAttention::FastformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : Attention(parent, std::move(name), config),
      query_(*this, "query", config.width, config.width, config.bias),
      key_(*this, "key", config.width, config.width, config.bias),
      out_(*this, "out", config.width, config.width, config.bias) {
  if (config.rotary) refuse("rotary positions");
  if (config.dropout != 0) refuse("attention dropout");
  if (!config.share_query_value) value_.emplace(*this, "value", config.width, config.width, config.bias);
  const double bound = 1 / std::sqrt(static_cast<double>(head_dim()));
  for (auto [weight, weight_name] : {std::pair{&w_q_, "w_q"}, std::pair{&w_k_, "w_k"}}) {
    *weight = parameter(weight_name, Tensor::empty({config.heads, head_dim()}, dtype(), device()));
    init::uniform_(*weight, generator(), -bound, bound);
  }
}

Tensor FastformerAttention::forward(const Tensor& x, const Tensor& keep) const {
  const auto heads = [&](const Tensor& t) { return split_heads(t, config().heads); };
  const Tensor query = query_(x), q = heads(query);
  const Tensor v = value_ ? heads((*value_)(x)) : q;  // one tensor, so that it gets one gradient
  const Tensor u =
      additive_attention({q, heads(key_(x)), v}, {{w_q_}, {w_k_}}, {.causal = config().causal, .keep = keep});
  return out_(merge_heads(u)) + query;  // R + Q, section 3.2 of Wu et al. 2021
}

std::unique_ptr<AttentionState> FastformerAttention::start_state() const { return std::make_unique<Pools>(); }

Tensor FastformerAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& pools = as<Pools>(state);
  const Tensor query = query_(x);
  const Tensor value = value_ ? (*value_)(x) : query;
  const auto heads = [&](const Tensor& t) { return split_heads(t, config().heads); };
  const auto score = [&](const Tensor& t, const Tensor& w) {  // t [B, H, 1, D], w [H, D] → [B, H, 1, 1]
    return sum(t * w.unsqueeze(1), {-1}, /*keepdim=*/true) / std::sqrt(static_cast<double>(head_dim()));
  };
  const Tensor q = heads(query);
  const Tensor global_query = pools.query.add(score(q, w_q_), q);  // eqs. 3 and 4
  const Tensor p = global_query * heads(key_(x));
  const Tensor global_key = pools.key.add(score(p, w_k_), p);  // eqs. 5 and 6
  return out_(merge_heads(global_key * heads(value))) + query;
}

}  // namespace linnet::nn
