#include <linnet/nn/attention/linear.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::nn {

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
  const Tensor queries = linear_attention_features(q);
  // Divided by their sum, so that products of small features stay in float32's range.
  const Tensor o = past.sums.attend(queries / sum(queries, {-1}, true), linear_attention_features(k), v);
  return out_(merge_heads(o.to(x.dtype())));
}

Mechanism linear_mechanism() {
  Mechanism m{.name = "linear", .paper = "Katharopoulos et al. 2020, eqs. 4-12", .make = maker<LinearAttention>()};
  m.options = LinearAttentionConfig{};
  m.option_list = {
      token_dropout_option<LinearAttentionConfig>("what linear attention drops: token, whole queries and keys")};
  m.refusal = refuse_feature_dropout<LinearAttentionConfig>;
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
