#include <linnet/nn/attention/fastmax.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <linnet/nn/layers/positions.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

OptionWords<FastmaxForm> form_words() {
  return {{"auto", FastmaxForm::automatic},
          {"quadratic", FastmaxForm::quadratic},
          {"factorised", FastmaxForm::factorised}};
}

OptionWords<FastmaxDropout> dropout_words() {
  return {{"quadratic", FastmaxDropout::quadratic},
          {"standard", FastmaxDropout::standard},
          {"token", FastmaxDropout::token}};
}

OptionWords<FastmaxNormaliser> normaliser_words() {
  return {{"clean", FastmaxNormaliser::clean}, {"shared", FastmaxNormaliser::shared}};
}

/// The form's name in model files. There "auto" is "automatic", and `reference` has a name, which the option does not
/// accept.
std::string name_of(FastmaxForm form) {
  return form == FastmaxForm::automatic ? "automatic" : detail::word_of(form_words(), form, "reference");
}

}  // namespace

void for_pieces_of_memory(const Tensor& k, const Tensor& v, const Tensor& memory_mask,
                          const std::function<void(const Tensor& k, const Tensor& v, const Tensor& hidden)>& add) {
  Tensor values = v, hidden;
  if (memory_mask.defined()) {
    const Tensor padding = logical_not(memory_mask).unsqueeze(1).unsqueeze(-1);  // [B, 1, M, 1]
    values = masked_fill(v, padding, 0);
    hidden = logical_and(padding, any(logical_not(padding), {2}, /*keepdim=*/true));
  }
  for (int64_t first = 0; first < k.size(2); first += FeatureSums::kRecent) {
    const auto piece = [&](const Tensor& x) {
      return x.narrow(2, first, std::min(FeatureSums::kRecent, k.size(2) - first));
    };
    add(piece(k), piece(values), hidden.defined() ? piece(hidden) : hidden);
  }
}

FastmaxAttention::FastmaxAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config),
      order_(config.mechanism == "fastmax1" ? 1 : 2),
      options_(options_of<FastmaxConfig>(config)),
      scale_(fastmax_scale(options_.scale, order_ == 2, head_dim())) {
  if (config.rotary && order_ == 1) refuse("rotary positions");
  check_options();

  // The coefficients of the features 1, x_a and x_a·x_b (a ≤ b) in f(s) = Σ s^l/l!                      [FAST eq.8]
  // A product x_a·x_b with a < b occurs twice in s²/2, so its coefficient is 2·½.
  std::vector<int64_t> first, second;
  std::vector<double> coefficients(static_cast<size_t>(1 + head_dim()), 1.0);
  for (int64_t a = 0; a < head_dim() && order_ == 2; ++a) {
    for (int64_t b = a; b < head_dim(); ++b) {
      first.push_back(a);
      second.push_back(b);
      coefficients.push_back(a == b ? 0.5 : 1.0);
    }
  }
  first_ = tensor(first).to(device());
  second_ = tensor(second).to(device());
  coefficients_ = tensor(coefficients).to(dtype()).to(device());
}

/// Calls fastmax on tensors without tokens, so that bad options throw before any training. The call has its own
/// generator, because draws from the model's would change the initial weights.
void FastmaxAttention::check_options() const {
  Generator aside(0);
  FastmaxOptions trial = call_options();
  trial.generator = &aside;
  const Tensor none = zeros({1, config().heads, 0, head_dim()}, dtype(), device());
  fastmax(none, none, none, trial);
}

FastmaxOptions FastmaxAttention::call_options(const Tensor& padding_mask) const {
  // Rotary positions come after the normalisation, so with them project() normalises and the op must not.
  return {.order = order_,
          .normalisation = config().rotary ? FastmaxNormalisation::none : FastmaxNormalisation::standard,
          .scale = scale_,
          .causal = config().causal,
          .padding_mask = padding_mask,
          .form = options_.form,
          .dropout = training() ? config().dropout : 0,
          .dropout_kind = options_.dropout_kind,
          .dropout_normaliser = options_.dropout_normaliser,
          .generator = &generator()};
}

/// q̂ or k̂ [FAST eq.5] [FAST eq.6], rotated when positions are rotary. A rotation does not change lengths, so the
/// scores stay in their range. For bfloat16 the result is float32.
Tensor FastmaxAttention::standardised(const Tensor& x, int64_t start) const {
  const Tensor x_hat = layer_norm(x.to(computed_in(x.dtype())), {}, {}, 1e-5);
  return config().rotary ? rotate(x_hat, start) : x_hat;
}

/// φ(x) = [1; x; x_a·x_b (a ≤ b)], [..., D] → [..., M]; in order 1 only [1; x].
Tensor FastmaxAttention::features(const Tensor& x) const {
  const Tensor one = ones_like(x.narrow(-1, 0, 1));
  if (order_ == 1) return concat({one, x}, -1);
  const auto select = [&](const Tensor& index) { return linnet::detail::select_slices(x, x.rank() - 1, index); };
  return concat({one, x, select(first_) * select(second_)}, -1);
}

Tensor FastmaxAttention::query_features(const Tensor& q, int64_t start) const {
  return features(standardised(q, start) * scale_) * coefficients_;
}

Qkv FastmaxAttention::project(const Tensor& x, const Tensor& padding_mask) const {
  auto [q, k, v] = QkvAttention::project(x, padding_mask);
  if (config().rotary) q = standardised(q, 0).to(x.dtype()), k = standardised(k, 0).to(x.dtype());
  return {q, k, v};
}

Tensor FastmaxAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return out_(merge_heads(fastmax(q, k, v, call_options(padding_mask))));
}

std::vector<AttentionMap> FastmaxAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", fastmax_weights(q, k, call_options(padding_mask))}};
}

std::unique_ptr<AttentionState> FastmaxAttention::start_state() const { return std::make_unique<FeatureSumsState>(); }

Tensor FastmaxAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = dynamic_cast<FeatureSumsState&>(state);
  const auto [q, k, v] = split_qkv(project_step(past.conv, x), config().heads);
  past.sums.add(features(standardised(k, state.tokens())), v);
  return out_(merge_heads(past.sums.read(query_features(q, state.tokens())).to(x.dtype())));
}

Tensor FastmaxAttention::forward_cross(const Tensor& x, const Tensor& memory, const Tensor&,
                                       const Tensor& memory_mask) const {
  const auto [q, k, v] = project_cross(x, memory);
  FastmaxOptions options = call_options(memory_mask);
  options.causal = false;
  return out_(merge_heads(fastmax(q, k, v, options)));
}

std::unique_ptr<AttentionState> FastmaxAttention::start_cross(const Tensor& memory, const Tensor& memory_mask) const {
  auto state = std::make_unique<FeatureSumsState>();
  const auto [k, v] = project_memory(memory);
  for_pieces_of_memory(k, v, memory_mask, [&](const Tensor& keys, const Tensor& values, const Tensor& hidden) {
    const Tensor of_keys = features(standardised(keys, 0));
    state->sums.add(hidden.defined() ? masked_fill(of_keys, hidden, 0) : of_keys, values);
  });
  return state;
}

Tensor FastmaxAttention::forward_cross_step(AttentionState& state, const Tensor& x) const {
  const FeatureSums& sums = dynamic_cast<const FeatureSumsState&>(state).sums;
  return out_(merge_heads(sums.read(query_features(project_queries(x), 0)).to(x.dtype())));
}

std::vector<Setting> FastmaxAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  const auto number = [&](FastmaxScale name) { return fastmax_scale(name, order_ == 2, head_dim()); };
  all.push_back({"fastmax_scale", scale_, /*may_differ=*/false,
                 fmt::format("with heads of {}: paper is {}, sqrt {}, unit {}", head_dim(),
                             number(FastmaxScale::paper), number(FastmaxScale::sqrt), number(FastmaxScale::unit))});
  all.push_back({"fastmax_form", name_of(options_.form), /*may_differ=*/true});
  all.push_back({"dropout_kind", detail::word_of(dropout_words(), options_.dropout_kind), /*may_differ=*/true});
  all.push_back(
      {"dropout_normaliser", detail::word_of(normaliser_words(), options_.dropout_normaliser), /*may_differ=*/true});
  return all;
}

namespace {

AttentionOption of_dropout(AttentionOption option) {
  option.of_dropout = true;
  return option;
}

std::vector<AttentionOption> option_list() {
  return {
      word_or_number_option(
          "fastmax_scale",
          "of the score: paper, sqrt, unit or a number (default: sqrt for fastmax2, unit for fastmax1)",
          &FastmaxConfig::scale,
          {{"paper", FastmaxScale::paper}, {"sqrt", FastmaxScale::sqrt}, {"unit", FastmaxScale::unit}}),
      word_option("fastmax_form", "how fastmax is computed (default: auto, the faster one)", &FastmaxConfig::form,
                  form_words()),
      of_dropout(word_option(
          "dropout_kind",
          "what fastmax drops (default: quadratic, for fastmax1 standard; both are slow with short contexts, token "
          "costs nothing)",
          &FastmaxConfig::dropout_kind, dropout_words())),
      of_dropout(word_option("dropout_normaliser",
                             "features in fastmax's denominator (default: clean; shared is unstable)",
                             &FastmaxConfig::dropout_normaliser, normaliser_words())),
  };
}

/// Refuses scales so large that squared scores overflow float32, scales with which the weights 1 + s of order 1 can
/// be negative, and dropout of features that the order or the form does not have.
std::optional<OptionRefusal> refusal(const AttentionConfig& config, bool second_order) {
  const FastmaxConfig options = options_of<FastmaxConfig>(config);
  constexpr double kMost = 1e6;
  const int64_t head_dim = config.width / config.heads;
  const double scale = fastmax_scale(options.scale, second_order, head_dim);
  if (!second_order && scale * static_cast<double>(head_dim) >= 1) {  // |q·k| is head_dim at most
    return OptionRefusal{
        "fastmax_scale",
        fmt::format("whose weights are positive only with a scale below 1/{}, the width of a head; use "
                    "unit, a smaller number, or fastmax2",
                    head_dim)};
  }
  if (scale > kMost) return OptionRefusal{"fastmax_scale", fmt::format("which takes {:.0f} at most", kMost)};
  if (config.dropout == 0) return std::nullopt;
  const FastmaxDropout kind =
      options.dropout_kind.value_or(second_order ? FastmaxDropout::quadratic : FastmaxDropout::standard);
  if (!second_order && kind == FastmaxDropout::quadratic) {
    return OptionRefusal{"dropout_kind", "which has no quadratic features; use standard or token"};
  }
  if (options.form == FastmaxForm::quadratic && kind != FastmaxDropout::token) {
    return OptionRefusal{"dropout_kind", "whose form quadratic has no features to drop; use token, or another form"};
  }
  return std::nullopt;
}

Mechanism of_order(int order) {
  const bool second = order == 2;
  Mechanism m{.name = second ? "fastmax2" : "fastmax1",
              .paper = "Gerami et al. 2024, eqs. 5-12",
              .make = maker<FastmaxAttention>()};
  m.cross = true;
  m.options = FastmaxConfig{.scale = second ? FastmaxScale::sqrt : FastmaxScale::unit,
                            .dropout_kind = second ? FastmaxDropout::quadratic : FastmaxDropout::standard};
  m.option_list = option_list();
  m.refusal = [=](const AttentionConfig& config) { return refusal(config, second); };
  m.rotary = second;
  m.complexity = second ? "N·D³" : "N·D²";
  // The factorised form takes 4·N·F·(D + 1) operations forward and 10·N·F·(D + 1) backward for each head, with F
  // features.
  m.operations = [=](const AttentionSize& size, const std::vector<std::string>& kernels) {
    if (std::ranges::find(kernels, "fastmax") == kernels.end()) return quadratic_operations(size, kernels);
    const auto d = static_cast<double>(size.head_dim), n = static_cast<double>(size.tokens);
    const double features = second ? (d + 1) * (d + 2) / 2 : d + 1;
    return static_cast<double>(size.batch * size.heads) * 14 * n * features * (d + 1);
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [=](const AttentionConfig& config, Generator& rng, Device) -> AttentionCore {
    const auto options = options_of<FastmaxConfig>(config);
    const FastmaxOptions call{.order = order,
                              .scale = options.scale,
                              .causal = config.causal,
                              .form = options.form,
                              .dropout = config.dropout,
                              .dropout_kind = options.dropout_kind,
                              .dropout_normaliser = options.dropout_normaliser,
                              .generator = &rng};
    return {{}, [=](const Tensor& q, const Tensor& k, const Tensor& v) { return fastmax(q, k, v, call); }};
  };
  // Fastmax standardises queries and keys. So the size of their weights does not change what the model computes, but
  // only how much an optimizer's step rotates queries and keys: with 0.02, AdamW's usual step is a twentieth of a
  // weight. Preset nanogpt-cpu, validation loss over three seeds: fastmax2 1.954 with 0.02, 1.946 with 0.2. The
  // nearly uniform attention weights of fastmax1 need the larger rotations: 2.04 with 0.02, 2.11 with 0.2 (one seed).
  if (second) m.query_key_std = 0.2;
  return m;
}

}  // namespace

Mechanism fastmax1_mechanism() { return of_order(1); }
Mechanism fastmax2_mechanism() { return of_order(2); }

}  // namespace linnet::nn
