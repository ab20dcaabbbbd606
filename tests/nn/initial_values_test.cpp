/// The initial values of every parameter of every layer and model have the spread that the header says, except for
/// chance.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/linnet.h>

using namespace linnet;

namespace {

// By chance, a bound of five and a half standard deviations is exceeded once in 26 million times.
constexpr double kDeviations = 5.5;

/// The distribution of a parameter's initial values.
struct Start {
  enum class Kind { normal, uniform, constant } kind;
  double size;  ///< the standard deviation, the bound of U(−b, b), or the value
};

Start normal(double deviation) { return {Start::Kind::normal, deviation}; }
Start uniform(double bound) { return {Start::Kind::uniform, bound}; }
Start constant(double value) { return {Start::Kind::constant, value}; }
/// The distribution of Linear's weight and bias.
Start linear(int64_t in) { return uniform(1 / std::sqrt(static_cast<double>(in))); }

/// The distribution for a parameter's name; none if the table lacks the name.
using Table = std::function<std::optional<Start>(const std::string& name)>;

double mean_of(const std::vector<double>& values, const std::function<double(double)>& f) {
  double sum = 0;
  for (const double x : values) sum += f(x);
  return sum / static_cast<double>(values.size());
}

void check_start(const std::vector<double>& values, const Start& start) {
  const auto n = static_cast<double>(values.size());
  const double size = start.size;
  if (start.kind == Start::Kind::constant) {
    CHECK(std::ranges::all_of(values, [&](double x) { return x == size; }));
    return;
  }
  // With fewer, half the size would pass too.
  REQUIRE_MESSAGE(n >= 128, "all models together have only ", n, " numbers of this parameter, and 128 are needed to ",
                  "measure random ones; if it starts in another way, add it to the test's tables");
  const bool is_normal = start.kind == Start::Kind::normal;
  const double variance = is_normal ? size * size : size * size / 3;
  // The variance of x², for variance 1: E x⁴ − 1 is 3 − 1 for normal numbers, 9/5 − 1 for uniform ones.
  const double of_squares = is_normal ? 2 : 0.8;
  CHECK(std::abs(mean_of(values, [](double x) { return x; })) < kDeviations * std::sqrt(variance / n));
  const double share = mean_of(values, [](double x) { return x * x; }) / variance;
  CHECK(std::abs(share - 1) < kDeviations * std::sqrt(of_squares / n));
  const double largest = std::abs(*std::ranges::max_element(values, {}, [](double x) { return std::abs(x); }));
  if (is_normal) {
    CHECK(largest > 2 * size);  // uniform numbers of this variance end before 1.74
  } else {
    CHECK(largest <= size * (1 + 1e-6));
    CHECK(largest > size * (1 - 17 / n));  // missed with a probability of e⁻¹⁷
  }
}

/// Checks that two parameters that were drawn independently have no correlation.
void check_independent(const std::vector<double>& a, const std::vector<double>& b) {
  const size_t n = std::min(a.size(), b.size());
  double product = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < n; ++i) product += a[i] * b[i], of_a += a[i] * a[i], of_b += b[i] * b[i];
  CHECK(std::abs(product) < kDeviations * std::sqrt(of_a * of_b / static_cast<double>(n)));
}

/// Values by the name of their parameter, in the order of construction.
using Drawn = std::vector<std::pair<std::string, std::vector<double>>>;

/// Adds the parameter, divided into the parts with their own distribution: queries, keys and values are thirds of it.
void add_parts(const nn::NamedTensor& parameter, const std::function<void(const std::string&, const Tensor&)>& add) {
  const auto& [name, tensor] = parameter;
  if (!name.ends_with("qkv.weight") && !name.ends_with("qkv.bias")) return add(name, tensor);
  const int64_t third = tensor.size(0) / 3;
  int64_t row = 0;
  for (const char* part : {"queries", "keys", "values"}) {
    add(fmt::format("{} of {}", name, part), tensor.detach().narrow(0, row, third));
    row += third;
  }
}

/// The initial values of several models, enough to measure their smallest parameter.
template <class Make>
Drawn draw(int models, const Make& make) {
  Generator rng(31);
  Drawn drawn;
  for (int i = 0; i < models; ++i) {
    const auto model = make(rng);
    size_t place = 0;
    for (const nn::NamedTensor& parameter : model->named_parameters()) {
      add_parts(parameter, [&](const std::string& name, const Tensor& part) {
        if (i == 0) drawn.emplace_back(name, std::vector<double>());
        std::vector<double>& all = drawn.at(place++).second;
        const std::vector<double> values = part.to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      });
    }
  }
  return drawn;
}

/// Checks every parameter, and that no two have the same values.
void check_starts(const Drawn& drawn, const Table& table) {
  std::vector<const Drawn::value_type*> random;
  for (const auto& parameter : drawn) {
    const auto& [name, values] = parameter;
    CAPTURE(name);
    const std::optional<Start> start = table(name);
    REQUIRE(start);
    check_start(values, *start);
    if (start->kind == Start::Kind::constant) continue;
    check_independent(values, {values.begin() + 1, values.end()});
    if (name.find("qkv_global") != std::string::npos) continue;  // starts as a copy of others
    for (const auto* other : random) {
      CAPTURE(other->first);
      check_independent(values, other->second);
    }
    random.push_back(&parameter);
  }
}

/// Distributions by the ends of names; the first that fits applies.
Table by_end(std::vector<std::pair<std::string, Start>> starts) {
  return [starts = std::move(starts)](const std::string& name) -> std::optional<Start> {
    for (const auto& [end, start] : starts) {
      if (name.ends_with(end)) return start;
    }
    return std::nullopt;
  };
}

constexpr int64_t kWidth = 32, kHeads = 2, kHeadDim = kWidth / kHeads, kTaps = 4, kTokens = 16;

/// Every mechanism, and every option that adds parameters or changes their shapes.
std::vector<nn::AttentionConfig> attentions() {
  std::vector<nn::AttentionConfig> configs;
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    configs.push_back({.mechanism = mechanism, .short_conv = kTaps});
    configs.push_back({.mechanism = mechanism, .bias = false});
  }
  configs.push_back({.mechanism = "softmax", .rotary = true});
  configs.push_back({.mechanism = "fastmax2", .rotary = true});
  configs.push_back(
      {.mechanism = "fastformer",
       .options = nn::FastformerConfig{.interaction = Interaction::concat, .share_query_value = false}});
  configs.push_back({.mechanism = "fastformer",
                     .options = nn::FastformerConfig{.interaction = Interaction::concat, .share_heads = true}});
  configs.push_back({.mechanism = "fastformer", .options = nn::FastformerConfig{.full_logits = true}});
  configs.push_back({.mechanism = "fastformer", .options = nn::FastformerConfig{.projections = 5}});
  configs.push_back(
      {.mechanism = "linformer", .options = nn::LinformerConfig{.rank = 4, .share = nn::LinformerShare::key_value}});
  for (nn::AttentionConfig& config : configs) {
    config.width = kWidth, config.heads = kHeads, config.max_tokens = kTokens;
  }
  return configs;
}

/// The distributions of linear maps follow from the width, those of logits from their fan in, those of convolutions
/// from their taps.
Table attention_table(const nn::AttentionConfig& config) {
  const auto* const fastformer = std::any_cast<nn::FastformerConfig>(&config.options);
  const Start logits = linear(fastformer != nullptr && fastformer->full_logits ? kWidth : kHeadDim);
  const Start map = linear(fastformer != nullptr && fastformer->share_heads ? kHeadDim : kWidth);
  std::vector<std::pair<std::string, Start>> starts = {{"conv.weight", uniform(1 / std::sqrt(kTaps))},
                                                       {"out.weight", linear(kWidth)},
                                                       {"out.bias", linear(kWidth)},
                                                       {"_projection", linear(2 * kHeadDim)},
                                                       {"pool_k", constant(0)},
                                                       {"pool_v", constant(0)},
                                                       {"attention.e", normal(1 / std::sqrt(kTokens))},
                                                       {"attention.f", normal(1 / std::sqrt(kTokens))}};
  for (const char* name : {"w_q", "w_k", "w1", "w2", "w3", "w4", "w_q_bias", "w_k_bias"}) {
    starts.emplace_back(name, logits);
  }
  const Table others = by_end(std::move(starts));
  return [=](const std::string& name) -> std::optional<Start> {
    if (const auto start = others(name)) return start;
    return map;  // the map of queries, keys and values
  };
}

struct Model : nn::Module {
  explicit Model(Generator& rng) : Module(rng) {}
};

struct Layers : Model {
  using Model::Model;
  nn::Linear map{*this, "map", 40, 20};
  nn::Embedding table{*this, "table", 20, 16};
  nn::PositionEmbedding positions{*this, "positions", nn::Positions::learned, 20, 16};
  nn::PositionEmbedding narrow{*this, "narrow", nn::Positions::learned, 20, 16, 0.3};
  nn::LayerNorm layer_norm{*this, "layer_norm", 20};
  nn::RMSNorm rms_norm{*this, "rms_norm", 20};
  nn::ShortConvolution conv{*this, "conv", 30, kTaps, true};
  nn::FeedForward mlp{*this, "mlp", 20, 30};
  nn::GRU gru{*this, "gru", 20, 16};
  nn::LSTM lstm{*this, "lstm", 20, 16};
  nn::AttentionPooling pool{*this, "pool", 24};
  nn::Conv1d conv1d{*this, "conv1d", 8, 8, 5};
  nn::Conv2d conv2d{*this, "conv2d", 8, 8, 3};
  nn::ConvTranspose2d turned{*this, "turned", 8, 6, 3};
  nn::GroupNorm group_norm{*this, "group_norm", 2, 8};
  nn::BatchNorm1d batch1_norm{*this, "batch1_norm", 8};
  nn::BatchNorm2d batch2_norm{*this, "batch2_norm", 8};
};

struct OneAttention : Model {
  OneAttention(Generator& rng, const nn::AttentionConfig& config)
      : Model(rng), attention(nn::make_attention(*this, "attention", config)) {}
  std::unique_ptr<nn::Attention> attention;
};

nn::BlockConfig block(const std::string& mechanism) {
  return {.attention = {.mechanism = mechanism, .width = kWidth, .heads = kHeads}, .hidden = 3 * kWidth};
}

}  // namespace

TEST_CASE("initial values: Linear, Embedding, positions, norms, convolutions, pooling, GRU and LSTM") {
  check_starts(
      draw(200, [](Generator& rng) { return std::make_unique<Layers>(rng); }),
      by_end({{"map.weight", linear(40)},       {"map.bias", linear(40)},
              {"table.weight", normal(1)},      {"positions.weight", normal(1)},
              {"narrow.weight", normal(0.3)},   {"norm.weight", constant(1)},
              {"norm.bias", constant(0)},       {"conv.weight", uniform(1 / std::sqrt(kTaps))},
              {"conv1d.weight", linear(8 * 5)}, {"conv1d.bias", linear(8 * 5)},
              {"conv2d.weight", linear(8 * 9)}, {"conv2d.bias", linear(8 * 9)},
              {"turned.weight", linear(6 * 9)},  // from the channels that it makes, as in PyTorch
              {"turned.bias", linear(6 * 9)},   {"_l0", linear(16)},  // GRU and LSTM: from the width of their state
              {"mlp.fc1.weight", linear(20)},   {"mlp.fc1.bias", linear(20)},
              {"mlp.fc2.weight", linear(30)},   {"mlp.fc2.bias", linear(30)},
              {"pool.fc1.weight", linear(24)},  {"pool.fc1.bias", linear(24)},
              {"pool.fc2.weight", linear(24)},  {"pool.fc2.bias", linear(24)}}));
}

TEST_CASE("initial values: every attention mechanism and option") {
  for (const nn::AttentionConfig& config : attentions()) {
    CAPTURE(config.mechanism);
    check_starts(draw(100, [&](Generator& rng) { return std::make_unique<OneAttention>(rng, config); }),
                 attention_table(config));
  }
}

TEST_CASE("initial values: DecoderLM, its residual branches by its depth, and queries and keys of fastmax2") {
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    for (const int64_t layers : {1, 3}) {
      for (const bool share : {false, true}) {
        CAPTURE(mechanism);
        CAPTURE(layers);
        CAPTURE(share);
        nn::DecoderConfig config{
            .vocabulary = 50, .context = 20, .layers = layers, .share_layers = share, .block = block(mechanism)};
        config.block.attention.short_conv = kTaps;
        const Start ends_branch = normal(0.02 / std::sqrt(2.0 * static_cast<double>(layers)));
        const Start turning = normal(mechanism == "fastmax2" ? 0.2 : 0.02);
        check_starts(draw(20, [&](Generator& rng) { return std::make_unique<nn::DecoderLM>(rng, config); }),
                     by_end({{"conv.weight", uniform(1 / std::sqrt(kTaps))},
                             {"norm.weight", constant(1)},
                             {"norm1.weight", constant(1)},
                             {"norm2.weight", constant(1)},
                             {"bias", constant(0)},
                             {"bias of queries", constant(0)},
                             {"bias of keys", constant(0)},
                             {"bias of values", constant(0)},
                             {"attention.out.weight", ends_branch},
                             {"mlp.fc2.weight", ends_branch},
                             {"qkv.weight of queries", turning},
                             {"qkv.weight of keys", turning},
                             {"", normal(0.02)}}));
      }
    }
  }
}

TEST_CASE("initial values: PatchClassifier, and its positions by the mechanism") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    const nn::PatchClassifierConfig config{
        .side = 12, .patch = 3, .classes = 7, .layers = 2, .block = block(mechanism)};  // kTokens of them
    check_starts(draw(30, [&](Generator& rng) { return std::make_unique<nn::PatchClassifier>(rng, config); }),
                 by_end({{"norm.weight", constant(1)},
                         {"norm1.weight", constant(1)},
                         {"norm2.weight", constant(1)},
                         {"norm.bias", constant(0)},
                         {"norm1.bias", constant(0)},
                         {"norm2.bias", constant(0)},
                         {"patch.weight", linear(9)},
                         {"patch.bias", linear(9)},
                         {"pos.weight", normal(mechanism == "fastformer" ? 0.3 : 1)},
                         {"w_q", linear(kHeadDim)},
                         {"w_k", linear(kHeadDim)},
                         {"pool_k", constant(0)},
                         {"pool_v", constant(0)},
                         {"attention.e", normal(1 / std::sqrt(kTokens))},
                         {"attention.f", normal(1 / std::sqrt(kTokens))},
                         {"fc2.weight", linear(3 * kWidth)},
                         {"fc2.bias", linear(3 * kWidth)},
                         {"", linear(kWidth)}}));
  }
}

TEST_CASE("initial values: SequenceClassifier") {
  const nn::SequenceClassifierConfig config{.vocabulary = 30,
                                            .classes = 7,
                                            .layers = 2,
                                            .max_tokens = kTokens,
                                            .block = block("softmax"),
                                            .pooling = nn::Pooling::attention};
  check_starts(draw(150, [&](Generator& rng) { return std::make_unique<nn::SequenceClassifier>(rng, config); }),
               by_end({{"norm.weight", constant(1)},
                       {"norm1.weight", constant(1)},
                       {"norm2.weight", constant(1)},
                       {"norm.bias", constant(0)},
                       {"norm1.bias", constant(0)},
                       {"norm2.bias", constant(0)},
                       {"tok.weight", normal(0.02)},
                       {"pos.weight", normal(0.02)},
                       {"mlp.fc2.weight", linear(3 * kWidth)},
                       {"mlp.fc2.bias", linear(3 * kWidth)},
                       {"pool.fc2.weight", linear(kWidth)},
                       {"pool.fc2.bias", linear(kWidth)},
                       {"fc2.weight", linear(2 * kWidth)},
                       {"fc2.bias", linear(2 * kWidth)},
                       {"", linear(kWidth)}}));
}

TEST_CASE("initial values: EncoderDecoder") {
  const nn::EncoderDecoderConfig config{.vocabulary = 30,
                                        .source_tokens = kTokens,
                                        .target_tokens = kTokens,
                                        .encoder_layers = 2,
                                        .decoder_layers = 2,
                                        .block = block("softmax")};
  check_starts(draw(150, [&](Generator& rng) { return std::make_unique<nn::EncoderDecoder>(rng, config); }),
               by_end({{"norm.weight", constant(1)},
                       {"norm1.weight", constant(1)},
                       {"norm2.weight", constant(1)},
                       {"norm3.weight", constant(1)},
                       {"norm.bias", constant(0)},
                       {"norm1.bias", constant(0)},
                       {"norm2.bias", constant(0)},
                       {"norm3.bias", constant(0)},
                       {"tok.weight", normal(0.02)},
                       {"pos.weight", normal(0.02)},
                       {"mlp.fc2.weight", linear(3 * kWidth)},
                       {"mlp.fc2.bias", linear(3 * kWidth)},
                       {"", linear(kWidth)}}));
}

TEST_CASE("initial values: FastformerEncoder") {
  for (const bool released : {false, true}) {
    CAPTURE(released);
    const nn::FastformerEncoderConfig config{
        .width = kWidth, .heads = kHeads, .hidden = 3 * kWidth, .layers = 2, .max_tokens = 20, .released = released};
    const Start logits = linear(released ? kWidth : kHeadDim);
    check_starts(draw(150, [&](Generator& rng) { return std::make_unique<nn::FastformerEncoder>(rng, config); }),
                 by_end({{"norm.weight", constant(1)},
                         {"norm1.weight", constant(1)},
                         {"norm2.weight", constant(1)},
                         {"norm.bias", constant(0)},
                         {"norm1.bias", constant(0)},
                         {"norm2.bias", constant(0)},
                         {"pos.weight", normal(0.02)},
                         {"w_q", logits},
                         {"w_k", logits},
                         {"w_q_bias", logits},
                         {"w_k_bias", logits},
                         {"mlp.fc2.weight", linear(3 * kWidth)},
                         {"mlp.fc2.bias", linear(3 * kWidth)},
                         {"", linear(kWidth)}}));
  }
}

TEST_CASE("initial values: another seed starts with other numbers, the same seed with the same") {
  const auto first = [](uint64_t seed) {
    Generator rng(seed);
    return Layers(rng).map.weight().to_vector<double>();
  };
  CHECK(first(1) == first(1));
  check_independent(first(1), first(2));
}
