#include <linnet/nn/attention/performer.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

namespace {

constexpr int64_t kMostFeatures = 1'000'000, kMostSteps = 1'000'000'000;

/// The number of features m, for heads of `width` numbers.
int64_t feature_count(const PerformerConfig& config, int64_t width) {
  return config.features.value_or(performer_features(width));
}

/// The sums of features. Each feature is divided by its largest value so far, so that exponentials do not overflow.
struct PerformerSums : FeatureSumsState {
  Tensor most;  // the largest exponent of each feature so far, [B, H, 1, m]

  /// Adds keys by the exponents b [B, H, T, m] of their features.
  void add(const Tensor& b, const Tensor& v) {
    // The largest exponents cancel in the result, so they need no gradient.
    const Tensor largest = max(b.detach(), {2}, true);
    const Tensor next = most.defined() ? maximum(most, largest) : largest;
    if (most.defined()) sums.rescale(transpose(exp(most - next)));
    most = next;
    sums.add(exp(b - most), v);
  }
  /// The outputs of queries q [B, H, T, D].
  Tensor read(const Tensor& q, const Tensor& omega) const {
    // A query's −‖q'‖²/2 is in the numerator and the denominator of its result, so it is left out.
    const Tensor a = matmul(q * std::pow(static_cast<double>(q.size(3)), -0.25), transpose(omega)) + most;
    return sums.read(exp(a - max(a.detach(), {-1}, true)));
  }

 private:
  void visit(const Visitor& visitor) override {
    FeatureSumsState::visit(visitor);
    visitor(most, of_memory());
  }
};

}  // namespace

PerformerAttention::PerformerAttention(Module& parent, std::string name, const AttentionConfig& config)
    : QkvAttention(parent, std::move(name), config), options_(options_of<PerformerConfig>(config)) {
  if (config.rotary) refuse("rotary positions");
  if (const auto refused = refuse_feature_dropout<PerformerConfig>(config)) {
    const std::string kind = detail::word_of(token_dropout_words(), options_.dropout_kind);
    throw ValueError(fmt::format("{}: {} dropout does not apply to performer, {}", label(), kind, refused->why));
  }
  if (options_.features && *options_.features < 1) {
    throw ValueError(fmt::format("{}: {} features; it takes at least 1", label(), *options_.features));
  }
  if (options_.redraw < 0) {
    throw ValueError(
        fmt::format("{}: performer_redraw is {}; it must be at least 1, or 0 for never", label(), options_.redraw));
  }
  omega_ = buffer("omega", draw());
}

Tensor PerformerAttention::draw() const {
  return performer_projection(feature_count(options_, head_dim()), head_dim(), generator(), dtype(), device());
}

void PerformerAttention::on_step(int64_t step) {
  if (options_.redraw > 0 && step > 0 && step % options_.redraw == 0) omega_.copy_(draw());
}

Tensor PerformerAttention::forward(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  const Tensor o = performer_attention(q, k, v, omega_,
                                       {.causal = config().causal,
                                        .padding_mask = padding_mask,
                                        .dropout = training() ? config().dropout : 0,
                                        .generator = &generator()});
  return out_(merge_heads(o));
}

std::vector<AttentionMap> PerformerAttention::forward_maps(const Tensor& x, const Tensor& padding_mask) const {
  const auto [q, k, v] = project(x, padding_mask);
  return {{"", performer_attention_weights(q, k, omega_, {.causal = config().causal, .padding_mask = padding_mask})}};
}

std::unique_ptr<AttentionState> PerformerAttention::start_state() const { return std::make_unique<PerformerSums>(); }

Tensor PerformerAttention::forward_step(AttentionState& state, const Tensor& x) const {
  auto& past = dynamic_cast<PerformerSums&>(state);
  const auto [q, k, v] = split_qkv(project_step(past.conv, x).to(computed_in(x.dtype())), config().heads);
  past.add(performer_log_features(k, omega_), v);
  return out_(merge_heads(past.read(q, omega_).to(x.dtype())));
}

Tensor PerformerAttention::forward_cross(const Tensor& x, const Tensor& memory, const Tensor&,
                                         const Tensor& memory_mask) const {
  const auto [q, k, v] = project_cross(x, memory);
  const Tensor o = performer_attention(
      q, k, v, omega_,
      {.padding_mask = memory_mask, .dropout = training() ? config().dropout : 0, .generator = &generator()});
  return out_(merge_heads(o));
}

std::unique_ptr<AttentionState> PerformerAttention::start_cross(const Tensor& memory,
                                                                const Tensor& memory_mask) const {
  auto state = std::make_unique<PerformerSums>();
  const auto [k, v] = project_memory(memory);
  for_pieces_of_memory(k, v, memory_mask, [&](const Tensor& keys, const Tensor& values, const Tensor& hidden) {
    const Tensor b = performer_log_features(keys.to(computed_in(keys.dtype())), omega_);
    // Not −∞, because in a piece that is all padding −∞ − (−∞) would be NaN.
    state->add(hidden.defined() ? masked_fill(b, hidden, std::numeric_limits<float>::lowest()) : b, values);
  });
  return state;
}

Tensor PerformerAttention::forward_cross_step(AttentionState& state, const Tensor& x) const {
  const Tensor q = project_queries(x).to(computed_in(x.dtype()));
  return out_(merge_heads(dynamic_cast<const PerformerSums&>(state).read(q, omega_).to(x.dtype())));
}

std::vector<Setting> PerformerAttention::settings() const {
  std::vector<Setting> all = Attention::settings();
  all.push_back({"performer_redraw", options_.redraw, /*may_differ=*/true});
  return all;
}

namespace {

AttentionOption features_option() {
  const std::string word = "auto";
  AttentionOption option{.name = "performer_features",
                         .help = "random features of performer (default: auto, D ln D for heads of D numbers)",
                         .kind = AttentionOption::Kind::word_or_number,
                         .words = {word}};
  option.get = [=](const std::any& options) {
    const auto& features = std::any_cast<const PerformerConfig&>(options).features;
    return features ? std::to_string(*features) : word;
  };
  option.set = [=](std::any& options, std::string_view text) {
    std::optional<int64_t> features;
    try {
      if (text != word) features = detail::parse_integer(text, 1, kMostFeatures);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("{}, or {}", error.what(), word));
    }
    std::any_cast<PerformerConfig&>(options).features = features;
  };
  return option;
}

}  // namespace

Mechanism performer_mechanism() {
  Mechanism m{.name = "performer",
              .paper = "Choromanski et al. 2021, lemma 1 and section 2.4",
              .make = maker<PerformerAttention>()};
  m.cross = true;
  m.options = PerformerConfig{};
  m.option_list = {
      features_option(),
      integer_option("performer_redraw",
                     "steps after which performer draws new features; 0 for never (default: 1000)",
                     &PerformerConfig::redraw, 0, kMostSteps),
      token_dropout_option<PerformerConfig>("what performer drops: token, whole queries and keys"),
  };
  m.refusal = refuse_feature_dropout<PerformerConfig>;
  m.complexity = "N·m·D";
  // For each head with m features, forward computes the features of queries and keys, sums S and multiplies by it.
  // Backward does this again, sums R, and computes ∂φ from S and R, and ∂q and ∂k from ∂φ.
  m.operations = [](const AttentionSize& size, const std::vector<std::string>&) {
    const auto d = static_cast<double>(size.head_dim), n = static_cast<double>(size.tokens);
    const auto features = static_cast<double>(feature_count(options_of<PerformerConfig>(size), size.head_dim));
    return static_cast<double>(size.batch * size.heads) * n * features * (12 * d + 14 * (d + 1));
  };
  m.least_bytes = least_qkv_bytes;
  m.core = [](const AttentionConfig& config, Generator& rng, Device device) -> AttentionCore {
    const int64_t width = config.width / config.heads;
    const int64_t features = feature_count(options_of<PerformerConfig>(config), width);
    const Tensor omega = performer_projection(features, width, rng, DType::float32, device);
    return {{}, [=, &rng](const Tensor& q, const Tensor& k, const Tensor& v) {
              return performer_attention(q, k, v, omega,
                                         {.causal = config.causal, .dropout = config.dropout, .generator = &rng});
            }};
  };
  return m;
}

}  // namespace linnet::nn
