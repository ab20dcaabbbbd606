#include <linnet/nn/attention/softmax.h>

#include <tuple>

#include <linnet/nn/layers/positions.h>
#include <linnet/nn/layers/token_rows.h>
#include <linnet/ops/attention/attention.h>

namespace linnet::nn {

namespace {

struct KeysAndValues : AttentionState {
  TokenRows k, v;
  ShortConvolution::State conv;

 private:
  void visit(const Visitor& visitor) override {
    for (Tensor* tensor : {&k.room(), &v.room(), &conv.past}) visitor(*tensor, false);
  }
};

struct SoftmaxMemory : AttentionState {
  Tensor k, v, mask;

 private:
  void visit(const Visitor& visitor) override {
    for (Tensor* tensor : {&k, &v, &mask}) visitor(*tensor, true);
  }
};

}  // namespace

SoftmaxAttention::SoftmaxAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config) {}

Qkv SoftmaxAttention::project(const Tensor& x, const Tensor& padding_mask) const {
  auto [q, k, v] = QkvAttention::project(x, padding_mask);
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
  auto [q, k, v] = split_qkv(project_step(past.conv, x), config().heads);
  if (config().rotary) q = rotate(q, state.tokens()), k = rotate(k, state.tokens());
  return out_(merge_heads(softmax_attention(q, past.k.append(k), past.v.append(v))));
}

Tensor SoftmaxAttention::forward_cross(const Tensor& x, const Tensor& memory, const Tensor&,
                                       const Tensor& memory_mask) const {
  const auto [q, k, v] = project_cross(x, memory);
  const Tensor o = softmax_attention(
      q, k, v,
      {.padding_mask = memory_mask, .dropout = training() ? config().dropout : 0, .generator = &generator()});
  return out_(merge_heads(o));
}

std::unique_ptr<AttentionState> SoftmaxAttention::start_cross(const Tensor& memory, const Tensor& memory_mask) const {
  auto state = std::make_unique<SoftmaxMemory>();
  std::tie(state->k, state->v) = project_memory(memory);
  state->mask = memory_mask;
  return state;
}

Tensor SoftmaxAttention::forward_cross_step(AttentionState& state, const Tensor& x) const {
  const auto& memory = dynamic_cast<const SoftmaxMemory&>(state);
  return out_(merge_heads(softmax_attention(project_queries(x), memory.k, memory.v, {.padding_mask = memory.mask})));
}

Mechanism softmax_mechanism() {
  Mechanism m{.name = "softmax", .paper = "Vaswani et al. 2017, eq. 1", .make = maker<SoftmaxAttention>()};
  m.rotary = true;
  m.cross = true;
  m.complexity = "N²·D";
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
