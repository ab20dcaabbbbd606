#include <linnet/nn/attention/linformer.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/attention/linformer_attention.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

constexpr int64_t kRank = 64;

OptionWords<LinformerShare> share_words() {
  return {{"headwise", LinformerShare::headwise},
          {"key-value", LinformerShare::key_value},
          {"layerwise", LinformerShare::layerwise}};
}

/// The number of slots for this many tokens.
int64_t rank_of(const LinformerConfig& config, int64_t tokens) {
  return config.rank == 0 ? std::min(kRank, tokens) : config.rank;
}
int64_t rank_of(const AttentionConfig& config) {
  return rank_of(options_of<LinformerConfig>(config), config.max_tokens);
}

/// Refuses more slots than tokens, if the number of tokens is known.
std::optional<OptionRefusal> linformer_refusal(const AttentionConfig& config) {
  if (config.max_tokens == 0 || rank_of(config) <= config.max_tokens) return std::nullopt;
  return OptionRefusal{"linformer_rank",
                       fmt::format("whose rank is at most the {} tokens of the model; use less", config.max_tokens)};
}

/// Throws: ValueError, with `label`.
void check(const AttentionConfig& config, const char* label) {
  const int64_t rank = options_of<LinformerConfig>(config).rank;
  if (config.max_tokens < 1) {
    throw ValueError(
        fmt::format("{}: linformer projects a number of tokens that is fixed, but max_tokens is {}; set it to the "
                    "model's longest sequence",
                    label, config.max_tokens));
  }
  if (rank < 0)
    throw ValueError(fmt::format("{}: linformer_rank is {}; it must be at least 1, or 0 for {}", label, rank, kRank));
  if (rank > config.max_tokens) {
    throw ValueError(fmt::format("{}: linformer_rank is {}, above the {} tokens that max_tokens allows", label, rank,
                                 config.max_tokens));
  }
}

Tensor new_projection(const AttentionConfig& config, Generator& rng, DType dtype, Device device) {
  const Tensor projection = Tensor::empty({rank_of(config), config.max_tokens}, dtype, device);
  init::normal_(projection, rng, 0, 1 / std::sqrt(static_cast<double>(config.max_tokens)));
  return projection;
}

/// The state of cross-attention: memory's keys and values, projected to the slots.
struct Slots : AttentionState {
  Tensor k, v;  // [B, H, K, D]

 private:
  void visit(const Visitor& visitor) override {
    visitor(k, true);
    visitor(v, true);
  }
};

}  // namespace

LinformerAttention::LinformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config) {
  if (config.causal) refuse("causal form");
  if (config.rotary) refuse("rotary positions");
  check(config, label());
  const LinformerShare share = options_of<LinformerConfig>(config).share;
  if (share == LinformerShare::layerwise) {
    if (!config.shared.defined()) {
      throw ValueError(
          fmt::format("{}: layers share one projection, which is not there; set `shared` to what "
                      "make_shared_parameter returns, for all of them",
                      label()));
    }
    e_ = config.shared;
  } else {
    e_ = parameter("e", new_projection(config, generator(), dtype(), device()));
  }
  f_ =
      share == LinformerShare::headwise ? parameter("f", new_projection(config, generator(), dtype(), device())) : e_;
}

Tensor LinformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const Tensor o = linformer_attention(
      q, k, v, e_, f_,
      {.padding_mask = padding_mask, .dropout = training() ? config().dropout : 0, .generator = &generator()});
  return out_(merge_heads(o));
}

std::vector<AttentionMap> LinformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", linformer_attention_weights(q, k, e_, f_, {.padding_mask = padding_mask})}};
}

Tensor LinformerAttention::forward_cross(const Tensor& x, const Tensor& memory, const Tensor&,
                                         const Tensor& memory_mask) const {
  const auto [q, k, v] = project_cross(x, memory);
  const Tensor o = linformer_attention(
      q, k, v, e_, f_,
      {.padding_mask = memory_mask, .dropout = training() ? config().dropout : 0, .generator = &generator()});
  return out_(merge_heads(o));
}

std::unique_ptr<AttentionState> LinformerAttention::start_cross(const Tensor& memory,
                                                                const Tensor& memory_mask) const {
  if (memory.size(1) > config().max_tokens) {
    throw ValueError(fmt::format("memory has {} tokens, above the {} that the projections are for", memory.size(1),
                                 config().max_tokens));
  }
  auto state = std::make_unique<Slots>();
  const auto [k, v] = project_memory(memory);
  const auto slots = [&](const Tensor& projection, const Tensor& rows) {  // [Wang eq.7]
    const Tensor seen =
        memory_mask.defined() ? masked_fill(rows, logical_not(memory_mask).unsqueeze(1).unsqueeze(-1), 0) : rows;
    return matmul(projection.narrow(1, 0, memory.size(1)).to(rows.dtype()), seen);
  };
  state->k = slots(e_, k);
  state->v = slots(f_, v);  // 0 where all of memory is padding
  return state;
}

Tensor LinformerAttention::forward_cross_step(AttentionState& state, const Tensor& x) const {
  const auto& slots = dynamic_cast<const Slots&>(state);
  return out_(merge_heads(softmax_attention(project_queries(x), slots.k, slots.v)));
}

Mechanism linformer_mechanism() {
  Mechanism m{.name = "linformer", .paper = "Wang et al. 2020, eq. 7", .make = maker<LinformerAttention>()};
  m.cross = true;
  m.options = LinformerConfig{};
  m.option_list = {
      integer_option(
          "linformer_rank",
          "slots that linformer projects the tokens to (default: 0, for 64, or as many as there are tokens)",
          &LinformerConfig::rank, 0, 1'000'000'000),
      word_option(
          "linformer_share",
          "what shares linformer's projections: heads, keys and values too, or all layers (default: headwise)",
          &LinformerConfig::share, share_words())};
  m.refusal = linformer_refusal;
  m.causal = m.step = false;
  m.why_not_causal = "each of its slots mixes all tokens";
  m.shared = [](const Module& model, const AttentionConfig& config) -> Tensor {
    if (options_of<LinformerConfig>(config).share != LinformerShare::layerwise) return {};
    check(config, model.label());
    return new_projection(config, model.generator(), model.dtype(), model.device());
  };
  m.complexity = "N·K·D";
  // For each head the projections take 4·N·K·D operations forward and 8·N·K·D backward. Attention to the slots takes
  // as many as softmax attention to K keys, 14·N·K·D.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>&) {
    const auto d = static_cast<double>(size.head_dim), n = static_cast<double>(size.tokens);
    const auto rank = static_cast<double>(rank_of(options_of<LinformerConfig>(size), size.tokens));
    return static_cast<double>(size.batch * size.heads) * 26 * n * rank * d;
  };
  // Keys and values have two projections or share one. Both passes read each, and backward writes its gradient.
  m.least_bytes = [](const AttentionSize& size) {
    const auto options = options_of<LinformerConfig>(size);
    const int64_t projections = options.share == LinformerShare::headwise ? 2 : 1;
    const int64_t numbers = 3 * projections * rank_of(options, size.tokens) * size.tokens;
    return least_qkv_bytes(size) + static_cast<double>(numbers * size_of(computed_in(size.dtype)));
  };
  m.core = [](const AttentionConfig& config, Generator& rng, Device device) -> AttentionCore {
    const auto projection = [&] { return new_projection(config, rng, DType::float32, device).set_requires_grad(); };
    const bool is_shared = options_of<LinformerConfig>(config).share != LinformerShare::headwise;
    const Tensor e = projection(), f = is_shared ? e : projection();
    std::vector<Tensor> parameters{e};
    if (!is_shared) parameters.push_back(f);
    return {parameters, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              return linformer_attention(q, k, v, e, f, {.dropout = config.dropout, .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
