#include <linnet/nn/attention/informer.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/random.h>

namespace linnet::nn {

InformerAttention::InformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config) {
  if (config.causal) refuse("causal form");
  if (config.rotary) refuse("rotary positions");
  const auto [factor, queries] = options_of<InformerConfig>(config);
  if (factor < 1) throw ValueError(fmt::format("{}: informer_factor is {}; it must be at least 1", label(), factor));
  if (queries < 0) {
    throw ValueError(
        fmt::format("{}: informer_queries is {}; it must be at least 1, or 0 for a number that grows with "
                    "the tokens",
                    label(), queries));
  }
  seed_ = buffer("seed", randint(0, int64_t{1} << 32, {1}, generator()));
}

InformerAttentionOptions InformerAttention::call_options(const Tensor& padding_mask, Generator& draws) const {
  const auto [factor, queries] = options_of<InformerConfig>(config());
  return {.factor = factor, .queries = queries, .padding_mask = padding_mask, .generator = &draws};
}

Generator InformerAttention::evaluation_draws() const {
  return Generator(static_cast<uint64_t>(seed_.item<int64_t>()));
}

Tensor InformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const Qkv heads = project(x, padding_mask);
  const auto attend = [&](Generator& draws, double dropout) {
    InformerAttentionOptions options = call_options(padding_mask, draws);
    options.dropout = dropout;
    return out_(merge_heads(informer_attention(heads.q, heads.k, heads.v, options)));
  };
  if (training()) return attend(generator(), config().dropout);
  Generator draws = evaluation_draws();
  return attend(draws, 0);
}

std::vector<AttentionMap> InformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  Generator draws = training() ? generator() : evaluation_draws();  // a copy, so that maps do not change the model's
  return {{"", informer_attention_weights(q, k, call_options(padding_mask, draws))}};
}

std::vector<Setting> InformerAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  const auto [factor, queries] = options_of<InformerConfig>(config());
  all.emplace_back("informer_factor", factor);
  all.emplace_back("informer_queries", queries);
  return all;
}

Mechanism informer_mechanism() {
  Mechanism m{.name = "informer", .paper = "Zhou et al. 2021, eqs. 3 and 4", .make = maker<InformerAttention>()};
  m.options = InformerConfig{};
  m.option_list = {integer_option("informer_factor",
                                  "c of the c·⌈ln N⌉ queries of N that informer gives softmax attention (default: 5)",
                                  &InformerConfig::factor, 1, 1'000'000),
                   integer_option("informer_queries",
                                  "the number of these queries itself (default: 0, for what --informer-factor gives)",
                                  &InformerConfig::queries, 0, 1'000'000'000)};
  m.causal = m.step = false;
  m.why_not_causal = "whether it chooses a query depends on later ones";
  m.complexity = "N·ln N·D";
  // For each head 2·N·u·D operations sample the scores, and attention of u queries takes 4·N·u·D forward and 10·N·u·D
  // backward.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>& kernels) {
    const auto [factor, given] = options_of<InformerConfig>(size);
    const int64_t queries = given > 0 ? std::min(given, size.tokens) : informer_queries(size.tokens, factor);
    if (queries == size.tokens) return quadratic_operations(size, kernels);
    const auto d = static_cast<double>(size.head_dim), n = static_cast<double>(size.tokens);
    return static_cast<double>(size.batch * size.heads) * 16 * n * static_cast<double>(queries) * d;
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    const auto informer = options_of<InformerConfig>(config);
    return {
        {}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
          return informer_attention(
              q, k, v,
              {.factor = informer.factor, .queries = informer.queries, .dropout = config.dropout, .generator = &rng});
        }};
  };
  return m;
}

}  // namespace linnet::nn
