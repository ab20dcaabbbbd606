#include <linnet/nn/attention/linear.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {

namespace {

/// The features of queries, divided by their sum, so that products of small features do not underflow in float32.
Tensor query_features(const Tensor& q) {
  const Tensor features = linear_attention_features(q);
  return features / sum(features, {-1}, true);
}

}  // namespace

LinearAttention::LinearAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config) {
  if (config.rotary) refuse("rotary positions");
  if (const auto refused = refuse_feature_dropout<LinearAttentionConfig>(config)) {
    const std::string kind =
        detail::word_of(token_dropout_words(), options_of<LinearAttentionConfig>(config).dropout_kind);
    throw ValueError(
        fmt::format("{}: {} dropout does not apply to linear attention, {}", label(), kind, refused->why));
  }
}

Tensor LinearAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const Tensor o = linear_attention(q, k, v,
                                    {.causal = config().causal,
                                     .padding_mask = padding_mask,
                                     .dropout = training() ? config().dropout : 0,
                                     .generator = &generator()});
  return out_(merge_heads(o));
}

std::vector<AttentionMap> LinearAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", linear_attention_weights(q, k, {.causal = config().causal, .padding_mask = padding_mask})}};
}

std::unique_ptr<AttentionState> LinearAttention::start_state() const { return std::make_unique<FeatureSumsState>(); }

Tensor LinearAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = dynamic_cast<FeatureSumsState&>(state);
  const auto [q, k, v] = split_qkv(project_step(past.conv, x).to(computed_in(x.dtype())), config().heads);
  past.sums.add(linear_attention_features(k), v);
  return out_(merge_heads(past.sums.read(query_features(q)).to(x.dtype())));
}

Tensor LinearAttention::forward_cross(const Tensor& x, const Tensor& memory, const Tensor&,
                                      const Tensor& memory_mask) const {
  const auto [q, k, v] = project_cross(x, memory);
  const Tensor o = linear_attention(
      q, k, v,
      {.padding_mask = memory_mask, .dropout = training() ? config().dropout : 0, .generator = &generator()});
  return out_(merge_heads(o));
}

std::unique_ptr<AttentionState> LinearAttention::start_cross(const Tensor& memory, const Tensor& memory_mask) const {
  auto state = std::make_unique<FeatureSumsState>();
  const auto [k, v] = project_memory(memory);
  for_pieces_of_memory(k, v, memory_mask, [&](const Tensor& keys, const Tensor& values, const Tensor& hidden) {
    const Tensor features = linear_attention_features(keys.to(computed_in(keys.dtype())));
    state->sums.add(hidden.defined() ? masked_fill(features, hidden, 0) : features, values);
  });
  return state;
}

Tensor LinearAttention::forward_cross_step(AttentionState& state, const Tensor& x) const {
  const FeatureSums& sums = dynamic_cast<const FeatureSumsState&>(state).sums;
  const Tensor q = project_queries(x).to(computed_in(x.dtype()));
  return out_(merge_heads(sums.read(query_features(q)).to(x.dtype())));
}

Mechanism linear_mechanism() {
  Mechanism m{.name = "linear", .paper = "Katharopoulos et al. 2020, eqs. 4-12", .make = maker<LinearAttention>()};
  m.cross = true;
  m.options = LinearAttentionConfig{};
  m.option_list = {
      token_dropout_option<LinearAttentionConfig>("what linear attention drops: token, whole queries and keys")};
  m.refusal = refuse_feature_dropout<LinearAttentionConfig>;
  m.complexity = "N·D²";
  // The factorised form takes 4·N·D·(D + 1) operations forward and 10·N·D·(D + 1) backward for each head.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>& kernels) {
    if (std::ranges::find(kernels, "fastmax") == kernels.end()) return quadratic_operations(size, kernels);
    const auto d = static_cast<double>(size.head_dim), n = static_cast<double>(size.tokens);
    return static_cast<double>(size.batch * size.heads) * 14 * n * d * (d + 1);
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              return linear_attention(q, k, v,
                                      {.causal = config.causal, .dropout = config.dropout, .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
