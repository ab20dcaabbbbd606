#include <linnet/nn/attention/poolingformer.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {

namespace {

OptionWords<TokenPooling::Kind> pooling_words() {
  return {{"conv", TokenPooling::Kind::convolution},
          {"mean", TokenPooling::Kind::mean},
          {"max", TokenPooling::Kind::max}};
}

/// Refuses an odd window.
std::optional<OptionRefusal> poolingformer_refusal(const AttentionConfig& config) {
  if (options_of<PoolingformerConfig>(config).window % 2 == 0) return std::nullopt;
  return OptionRefusal{"window", "half of which is on each side; use an even number"};
}

LongformerAttentionOptions window_options(const PoolingformerConfig& options) {
  return {.window = options.window, .global_tokens = 0};
}

/// The second level's options, with the weights of convolutions.
PooledAttentionOptions pool_options(const PoolingformerConfig& options, const Tensor& pool_k, const Tensor& pool_v) {
  const TokenPooling pooling{.kind = options.pooling, .kernel = options.kernel, .stride = options.stride};
  PooledAttentionOptions pools{.keys = pooling, .values = pooling, .window = options.window2};
  pools.keys.weight = pool_k;
  pools.values.weight = pool_v;
  return pools;
}

}  // namespace

PoolingformerAttention::PoolingformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config),
      options_(options_of<PoolingformerConfig>(config)),
      qkv2_(*this, "qkv2", config.width, 3 * config.width, config.bias) {
  if (config.rotary) refuse("rotary positions");
  if (const auto refused = poolingformer_refusal(config)) {
    throw ValueError(
        fmt::format("{}: window {} does not apply to poolingformer, {}", label(), options_.window, refused->why));
  }
  if (options_.window < 0 || options_.window2 < 0 || options_.kernel < 1 || options_.stride < 1) {
    throw ValueError(
        fmt::format("{}: windows {} and {} must not be negative, and kernel {} and stride {} must be at least 1",
                    label(), options_.window, options_.window2, options_.kernel, options_.stride));
  }
  if (options_.pooling != TokenPooling::Kind::convolution) return;
  const Shape shape{options_.kernel, head_dim()};
  pool_k_ = parameter("pool_k", zeros(shape, dtype(), device()));
  pool_v_ = parameter("pool_v", zeros(shape, dtype(), device()));
}

LongformerAttentionOptions PoolingformerAttention::first_options(const Tensor& padding_mask) const {
  LongformerAttentionOptions options = window_options(options_);
  options.causal = config().causal;
  options.padding_mask = padding_mask;
  options.dropout = training() ? config().dropout : 0;
  options.generator = &generator();
  return options;
}

PooledAttentionOptions PoolingformerAttention::second_options(DType dtype, const Tensor& padding_mask) const {
  const auto weight = [&](const Tensor& pool) { return pool.defined() ? pool.to(dtype) : pool; };
  PooledAttentionOptions options = pool_options(options_, weight(pool_k_), weight(pool_v_));
  options.causal = config().causal;
  options.padding_mask = padding_mask;
  options.dropout = training() ? config().dropout : 0;
  options.generator = &generator();
  return options;
}

Tensor PoolingformerAttention::first_level(const Qkv& heads, const LongformerAttentionOptions& options) const {
  return merge_heads(longformer_attention(heads.q, heads.k, heads.v, {}, {}, {}, options));
}

Tensor PoolingformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const Tensor y = first_level(project(x, padding_mask), first_options(padding_mask));
  const auto [q, k, v] = split_qkv(qkv2_(y), config().heads);
  return out_(y + merge_heads(pooled_attention(q, k, v, second_options(q.dtype(), padding_mask))));
}

std::vector<AttentionMap> PoolingformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const Qkv first = project(x, padding_mask);
  LongformerAttentionOptions options = first_options(padding_mask);
  options.dropout = 0;
  const auto [q, k, v] = split_qkv(qkv2_(first_level(first, options)), config().heads);
  return {{"window", longformer_attention_weights(first.q, first.k, {}, {}, options)},
          {"pools", pooled_attention_weights(q, k, v, second_options(q.dtype(), padding_mask))}};
}

std::vector<Setting> PoolingformerAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  all.push_back({"window", options_.window});
  all.push_back({"window2", options_.window2});
  all.push_back({"pooling", detail::word_of(pooling_words(), options_.pooling)});
  all.push_back({"kernel", options_.kernel});
  all.push_back({"stride", options_.stride});
  return all;
}

Mechanism poolingformer_mechanism() {
  Mechanism m{
      .name = "poolingformer", .paper = "Zhang et al. 2021, section 3", .make = maker<PoolingformerAttention>()};
  m.step = false;
  m.options = PoolingformerConfig{};
  constexpr int64_t kMost = 1 << 30;
  m.option_list = {
      integer_option("window", "tokens that a token sees around it (default: 256), an even number",
                     &PoolingformerConfig::window, 0, kMost),
      integer_option("window2", "tokens whose pools a token of poolingformer sees (default: 512)",
                     &PoolingformerConfig::window2, 0, kMost),
      word_option("pooling", "how poolingformer pools tokens (default: conv, with learned weights)",
                  &PoolingformerConfig::pooling, pooling_words()),
  };
  m.refusal = poolingformer_refusal;
  m.note = [](const AttentionConfig& config) {
    return window_note(config, options_of<PoolingformerConfig>(config).window);
  };
  m.complexity = "N·(w1 + w2/ξ)·D";
  // It counts pairs of queries and keys: tokens with tokens, then tokens with pools.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>&) {
    const auto options = options_of<PoolingformerConfig>(size);
    const auto n = static_cast<double>(size.tokens), stride = static_cast<double>(options.stride);
    const double near = std::min(n, static_cast<double>(options.window + 1));
    const double pools = std::min(n, static_cast<double>(options.window2 + 1)) / stride * (size.causal ? 0.5 : 1);
    return static_cast<double>(size.batch * size.heads * size.head_dim) * 14 * n * (near + pools);
  };
  m.least_bytes = least_qkv_bytes;
  // There are no linear maps here, so the second level uses the queries of the first, and y as keys and values.
  m.core = [](const AttentionConfig& config, Generator& rng, Device device) -> AttentionCore {
    const auto options = options_of<PoolingformerConfig>(config);
    const Tensor pool = zeros({options.kernel, config.width / config.heads}, DType::float32, device);
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              LongformerAttentionOptions window = window_options(options);
              PooledAttentionOptions pools = pool_options(options, pool.to(q.dtype()), pool.to(q.dtype()));
              window.causal = pools.causal = config.causal;
              window.dropout = pools.dropout = config.dropout;
              window.generator = pools.generator = &rng;
              const Tensor y = longformer_attention(q, k, v, {}, {}, {}, window);
              return y + pooled_attention(q, y, y, pools);
            }};
  };
  return m;
}

}  // namespace linnet::nn
