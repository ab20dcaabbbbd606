#include <linnet/nn/attention/longformer.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/layers/token_rows.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

/// Refuses an odd window, and dilations that do not fit the heads.
std::optional<OptionRefusal> longformer_refusal(const AttentionConfig& config) {
  const auto options = options_of<LongformerConfig>(config);
  if (options.window % 2 != 0) return OptionRefusal{"window", "half of which is on each side; use an even number"};
  const auto dilations = static_cast<int64_t>(options.dilation.size());
  if (dilations != 1 && dilations != config.heads) {
    return OptionRefusal{"dilation",
                         fmt::format("of {} heads; give one number for all, or one for each", config.heads)};
  }
  return std::nullopt;
}

/// Rows first, first + 1, … of a map [3·C, C] and its bias.
struct PartOfMap {
  Tensor weight, bias;
  PartOfMap(const Linear& map, int64_t first, int64_t count)
      : weight(map.weight().narrow(0, first, count)),
        bias(map.bias().defined() ? map.bias().narrow(0, first, count) : Tensor()) {}
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
};

/// The keys and values that later tokens see: those in the window (`k`, `v`), those of global tokens
/// (`…_seen_by_all`), and those that a later global token sees (`…_global`).
struct LongformerState : AttentionState {
  TokenRows k, v, k_seen_by_all, v_seen_by_all, k_global, v_global;
  ShortConvolution::State conv;

  explicit LongformerState(int64_t reach) : k(reach + 1), v(reach + 1) {}

 private:
  void visit(const Visitor& visitor) override {
    for (TokenRows* rows : {&k, &v, &k_seen_by_all, &v_seen_by_all, &k_global, &v_global}) {
      visitor(rows->room(), false);
    }
    visitor(conv.past, false);
  }
};

}  // namespace

LongformerAttention::LongformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config),
      longformer_(options_of<LongformerConfig>(config)),
      qkv_global_(*this, "qkv_global", config.width, 3 * config.width, config.bias) {
  if (config.rotary) refuse("rotary positions");
  if (const auto refused = longformer_refusal(config)) {
    const std::string value =
        refused->option == "window" ? std::to_string(longformer_.window) : detail::joined(longformer_.dilation);
    throw ValueError(
        fmt::format("{}: {} {} does not apply to longformer, {}", label(), refused->option, value, refused->why));
  }
  for (const int64_t dilation : longformer_.dilation) {
    if (dilation < 1) throw ValueError(fmt::format("{}: dilation is {}; it must be at least 1", label(), dilation));
  }
  if (longformer_.window < 0 || longformer_.global_tokens < 0) {
    throw ValueError(fmt::format("{}: window {} and global_tokens {} must not be negative", label(),
                                 longformer_.window, longformer_.global_tokens));
  }
  start_as_copies();
}

void LongformerAttention::start_as_copies() const {
  const NoGrad no_grad;
  qkv_global_.weight().detach().copy_(qkv_.weight());
  if (qkv_.bias().defined()) qkv_global_.bias().detach().copy_(qkv_.bias());
}

LongformerAttentionOptions LongformerAttention::options(const Tensor& padding_mask) const {
  return {.window = longformer_.window,
          .dilation = longformer_.dilation,
          .global_tokens = longformer_.global_tokens,
          .causal = config().causal,
          .padding_mask = padding_mask,
          .dropout = training() ? config().dropout : 0,
          .generator = &generator()};
}

Qkv LongformerAttention::project_global(const Tensor& x) const {
  const int64_t heads = config().heads, width = config().width;
  const int64_t count = std::min(longformer_.global_tokens, x.size(1));
  if (count == 0) return {};
  const Tensor q = PartOfMap(qkv_global_, 0, width)(x.narrow(1, 0, count));
  const Tensor k_and_v = PartOfMap(qkv_global_, width, 2 * width)(x);
  return {split_heads(q, heads), split_heads(k_and_v.narrow(2, 0, width), heads),
          split_heads(k_and_v.narrow(2, width, width), heads)};
}

Tensor LongformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const auto [q_global, k_global, v_global] = project_global(x);
  return out_(merge_heads(longformer_attention(q, k, v, q_global, k_global, v_global, options(padding_mask))));
}

std::vector<AttentionMap> LongformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const auto [q_global, k_global, v_global] = project_global(x);
  return {{"", longformer_attention_weights(q, k, q_global, k_global, options(padding_mask))}};
}

std::unique_ptr<AttentionState> LongformerAttention::start_state() const {
  return std::make_unique<LongformerState>(longformer_.window * std::ranges::max(longformer_.dilation));
}

Tensor LongformerAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = dynamic_cast<LongformerState&>(state);
  const auto [q, k, v] = split_qkv(project_step(past.conv, x), config().heads);
  if (state.tokens() < longformer_.global_tokens) {
    past.k_seen_by_all.append(k);
    past.v_seen_by_all.append(v);
    const auto [q_global, k_global, v_global] = split_qkv(qkv_global_(x), config().heads);
    return out_(
        merge_heads(softmax_attention(q_global, past.k_global.append(k_global), past.v_global.append(v_global))));
  }
  const Tensor k_near = past.k.append(k), v_near = past.v.append(v);
  const Tensor k_global = past.k_seen_by_all.rows(), v_global = past.v_seen_by_all.rows();
  std::vector<Tensor> heads;  // one entry for each dilation, so one for each head or one for all
  const auto dilations = static_cast<int64_t>(longformer_.dilation.size()), each = config().heads / dilations;
  for (int64_t i = 0; i < dilations; ++i) {
    const int64_t dilation = longformer_.dilation[static_cast<size_t>(i)];
    const int64_t count = k_near.size(2), before = std::min((count - 1) / dilation, longformer_.window);
    const auto seen = [&](const Tensor& near, const Tensor& global) {
      const Tensor rows = near.narrow(1, i * each, each).slice(2, count - 1 - before * dilation, count, dilation);
      return global.defined() ? concat({global.narrow(1, i * each, each), rows}, 2) : rows;
    };
    heads.push_back(softmax_attention(q.narrow(1, i * each, each), seen(k_near, k_global), seen(v_near, v_global)));
  }
  return out_(merge_heads(heads.size() == 1 ? heads[0] : concat(heads, 1)));
}

std::vector<Setting> LongformerAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  all.push_back({"window", longformer_.window});
  all.push_back({"dilation", detail::joined(longformer_.dilation)});
  all.push_back({"global_tokens", longformer_.global_tokens});
  return all;
}

Mechanism longformer_mechanism() {
  Mechanism m{
      .name = "longformer", .paper = "Beltagy et al. 2020, section 3.1", .make = maker<LongformerAttention>()};
  m.options = LongformerConfig{};
  constexpr int64_t kMost = 1 << 30;
  m.option_list = {
      integer_option("window", "tokens that a token sees around it (default: 256), an even number",
                     &LongformerConfig::window, 0, kMost),
      integers_option("dilation",
                      "distance of the tokens in the window (default: 1), or one for each head, with commas",
                      &LongformerConfig::dilation, 1, kMost),
      integer_option("global_tokens", "first tokens, which see all and are seen by all (default: 1)",
                     &LongformerConfig::global_tokens, 0, kMost),
  };
  m.refusal = longformer_refusal;
  m.note = [](const AttentionConfig& config) {
    const auto options = options_of<LongformerConfig>(config);
    return std::ranges::max(options.dilation) == 1 ? window_note(config, options.window) : "";
  };
  m.complexity = "N·w·D";
  // `pairs` counts query–key pairs: each token with its window and the global tokens, and these with all tokens.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>&) {
    const auto options = options_of<LongformerConfig>(size);
    const auto n = static_cast<double>(size.tokens);
    const double near =
        std::min(n, static_cast<double>(options.window + 1)) + static_cast<double>(options.global_tokens);
    const double pairs = n * near + static_cast<double>(options.global_tokens) * n;
    return static_cast<double>(size.batch * size.heads * size.head_dim) * 14 * pairs;
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    const auto longformer = options_of<LongformerConfig>(config);
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              const Tensor q_global = q.narrow(2, 0, std::min(longformer.global_tokens, q.size(2)));
              return longformer_attention(q, k, v, q_global, k, v,
                                          {.window = longformer.window,
                                           .dilation = longformer.dilation,
                                           .global_tokens = longformer.global_tokens,
                                           .causal = config.causal,
                                           .dropout = config.dropout,
                                           .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
