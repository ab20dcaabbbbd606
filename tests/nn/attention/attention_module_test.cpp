#include <doctest/doctest.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <iterator>
#include <set>
#include <string>

#include <linnet/core/device/profile.h>
#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::largest_difference;
using test::same_bits;

namespace {

/// Each option of Fastformer, and some together.
std::vector<nn::AttentionConfig> fastformer_configs() {
  const nn::AttentionConfig plain{.mechanism = "fastformer", .width = 12, .heads = 3};
  std::vector<nn::AttentionConfig> configs;
  const auto add = [&](auto&& change) { change(configs.emplace_back(plain)); };
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.interaction = Interaction::add}; });
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.interaction = Interaction::concat}; });
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.full_logits = true}; });
  add([](nn::AttentionConfig& c) {
    c.options = nn::FastformerConfig{.interaction = Interaction::concat, .full_logits = true};
  });
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.share_heads = true}; });
  add([](nn::AttentionConfig& c) {
    c.options = nn::FastformerConfig{.interaction = Interaction::concat, .share_heads = true};
    c.short_conv = 2;
  });
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.share_query_value = false, .projections = 2}; });
  add([](nn::AttentionConfig& c) { c.options = nn::FastformerConfig{.projections = 5}; });
  return configs;
}

std::vector<nn::AttentionConfig> causal_configs() {
  std::vector<nn::AttentionConfig> configs;
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    configs.push_back({.mechanism = mechanism, .width = 12, .heads = 3, .causal = true});
  }
  configs.push_back({.mechanism = "softmax", .width = 12, .heads = 3, .causal = true, .rotary = true});
  configs.push_back({.mechanism = "fastmax2", .width = 12, .heads = 3, .causal = true, .rotary = true});
  configs.push_back({.mechanism = "fastmax2",
                     .width = 12,
                     .heads = 3,
                     .causal = true,
                     .options = nn::FastmaxConfig{.scale = FastmaxScale::sqrt}});
  configs.push_back(
      {.mechanism = "fastmax1", .width = 12, .heads = 3, .causal = true, .options = nn::FastmaxConfig{.scale = 0.1}});
  configs.push_back({.mechanism = "fastformer",
                     .width = 12,
                     .heads = 3,
                     .causal = true,
                     .options = nn::FastformerConfig{.share_query_value = false}});
  configs.push_back({.mechanism = "fastformer", .width = 12, .heads = 1, .causal = true, .bias = false});
  for (nn::AttentionConfig config : fastformer_configs()) {
    config.causal = true;
    configs.push_back(config);
  }
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    configs.push_back({.mechanism = mechanism, .width = 12, .heads = 3, .causal = true, .short_conv = 3});
  }
  return configs;
}

/// Configs without causality: those of causal_configs, and those of mechanisms without a causal form, with options.
std::vector<nn::AttentionConfig> whole_configs() {
  std::vector<nn::AttentionConfig> configs = causal_configs();
  for (nn::AttentionConfig& config : configs) config.causal = false;
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    if (mechanism.causal) continue;
    configs.push_back({.mechanism = mechanism.name, .width = 12, .heads = 3});
    configs.push_back({.mechanism = mechanism.name, .width = 12, .heads = 3, .short_conv = 3});
  }
  configs.push_back({.mechanism = "linformer",
                     .width = 12,
                     .heads = 3,
                     .max_tokens = 9,
                     .options = nn::LinformerConfig{.rank = 4, .share = nn::LinformerShare::key_value}});
  configs.push_back({.mechanism = "informer", .width = 12, .heads = 3, .options = nn::InformerConfig{.queries = 2}});
  return configs;
}

/// Whether the mechanism itself depends on a token's position: a projection along the tokens has a weight for each
/// position, and the sampled keys depend on the query's position.
bool knows_places(const nn::AttentionConfig& config) {
  const auto* const informer = std::any_cast<nn::InformerConfig>(&config.options);
  const std::set<std::string> always{"linformer", "poolingformer"};
  return always.contains(config.mechanism) || (informer != nullptr && informer->queries > 0);
}

/// The configs of causal_configs that have a step form.
std::vector<nn::AttentionConfig> step_configs() {
  std::vector<nn::AttentionConfig> configs = causal_configs();
  std::erase_if(configs, [](const auto& config) { return !nn::find_mechanism(config.mechanism).step; });
  for (const int64_t short_conv : {0, 3}) {
    nn::AttentionConfig config{
        .mechanism = "longformer", .width = 12, .heads = 3, .causal = true, .short_conv = short_conv};
    config.options = nn::LongformerConfig{.window = 2, .global_tokens = 2};
    configs.push_back(config);
    config.options = nn::LongformerConfig{.window = 4, .dilation = {1, 3, 2}, .global_tokens = 1};
    configs.push_back(config);
    config.options = nn::LongformerConfig{.window = 0, .dilation = {2}, .global_tokens = 0};
    configs.push_back(config);
  }
  return configs;
}

}  // namespace

TEST_CASE("attention: the step form gives what the sequence form gives") {
  for (const nn::AttentionConfig& config : step_configs()) {
    CAPTURE(config.mechanism);
    CAPTURE(config.rotary);
    Generator rng(7);
    const AttentionModel model(rng, config);
    const Tensor x = randn({2, 9, 12}, rng, DType::float64) * 3;
    const Tensor sequence = (*model.attention)(x);
    const auto state = model.attention->start();
    for (int64_t t = 0; t < 9; ++t) {
      CAPTURE(t);
      const Tensor step = model.attention->step(*state, x.select(1, t));
      CHECK(step.shape() == Shape{2, 12});
      CHECK(largest_difference(step, sequence.select(1, t)) < 1e-12);
    }
    CHECK(state->tokens() == 9);
  }
}

TEST_CASE("SoftmaxAttention: the step form copies O(N) rows in N tokens, recording or not gives the same") {
  Generator rng(19);
  const AttentionModel model(rng, {.mechanism = "softmax", .width = 8, .heads = 2, .causal = true});
  const Tensor x = randn({2, 200, 8}, rng, DType::float64);
  const Tensor sequence = (*model.attention)(x);
  const auto state = model.attention->start();
  const auto step = [&](int64_t t) {
    CHECK(largest_difference(model.attention->step(*state, x.select(1, t)), sequence.select(1, t)) < 1e-12);
  };
  for (int64_t t = 0; t < 3; ++t) step(t);
  int64_t copied = 0;
  {
    const NoGrad no_grad;
    const Profile profile;
    for (int64_t t = 3; t < 197; ++t) step(t);
    for (const KernelCall& call : profile.calls()) {
      if (call.kernel == "copy" && call.operands[1].shape.rank() == 4) copied += call.operands[1].shape[2];
    }
  }
  CHECK(copied < 2 * 3 * 197);  // keys and values, each written once and moved less than twice on average
  for (int64_t t = 197; t < 200; ++t) step(t);
}

TEST_CASE("SoftmaxAttention: backward through the step form gives the sequence form's gradients") {
  Generator rng(20);
  const AttentionModel model(rng, {.mechanism = "softmax", .width = 8, .heads = 2, .causal = true});
  Tensor x = randn({1, 5, 8}, rng, DType::float64).set_requires_grad();
  const Tensor weight = randn({1, 5, 8}, rng, DType::float64);
  const Tensor expected = grad({sum((*model.attention)(x)*weight)}, {x}).front();
  const auto state = model.attention->start();
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < 5; ++t) steps.push_back(model.attention->step(*state, x.select(1, t)));
  CHECK(largest_difference(grad({sum(stack(steps, 1) * weight)}, {x}).front(), expected) < 1e-12);
}

TEST_CASE("FeatureSums: the step form of a long text, where sums would round away what is added") {
  for (const char* mechanism : {"fastmax1", "fastmax2", "linear", "performer"}) {
    Generator rng(15);
    const AttentionModel model(rng, {.mechanism = mechanism, .width = 8, .heads = 2, .causal = true});
    const Tensor x = randn({1, 600, 8}, rng, DType::float64);
    const Tensor sequence = (*model.attention)(x);
    const auto state = model.attention->start();
    const NoGrad no_grad;
    for (int64_t t = 0; t < 600; ++t) {
      const Tensor step = model.attention->step(*state, x.select(1, t));
      CHECK(largest_difference(step, sequence.select(1, t)) < 1e-12);
    }
  }
}

TEST_CASE("attention: causal outputs do not see what comes later, to the bit") {
  for (const nn::AttentionConfig& config : causal_configs()) {
    CAPTURE(config.mechanism);
    Generator rng(8);
    const AttentionModel model(rng, config);
    const Tensor x = randn({1, 6, 12}, rng, DType::float64);
    const Tensor changed = concat({x.narrow(1, 0, 4), randn({1, 2, 12}, rng, DType::float64)}, 1);
    const Tensor before = (*model.attention)(x), after = (*model.attention)(changed);
    CHECK(largest_difference(before.narrow(1, 0, 4), after.narrow(1, 0, 4)) == 0);
    CHECK(largest_difference(before.select(1, 5), after.select(1, 5)) > 1e-3);
  }
}

TEST_CASE("attention: without causality, tokens are a set, and padding is not seen") {
  for (const nn::AttentionConfig& config : whole_configs()) {
    if (config.rotary) continue;
    CAPTURE(config.mechanism);
    Generator rng(9);
    AttentionModel model(rng, config);
    model.eval();  // in evaluation the samples of informer stay the same
    const nn::Attention& attention = *model.attention;
    const Tensor x = randn({2, 5, 12}, rng, DType::float64);
    const Tensor order = tensor({3, 1, 4, 0, 2}, DType::int64);
    const double change =
        largest_difference(attention(index_select(x, 1, order)), index_select(attention(x), 1, order));
    CHECK((change < 1e-12) == (config.short_conv == 0 && !knows_places(config)));  // it depends on the order

    const Tensor padded = concat({x, randn({2, 3, 12}, rng, DType::float64)}, 1);
    const Tensor other = concat({x, randn({2, 3, 12}, rng, DType::float64) * 100}, 1);
    const Tensor padding_mask = concat({ones({2, 5}, DType::boolean), zeros({2, 3}, DType::boolean)}, 1);
    const Tensor with_padding = attention(padded, padding_mask).narrow(1, 0, 5);
    CHECK(largest_difference(with_padding, attention(x)) < 1e-12);
    CHECK(largest_difference(with_padding, attention(other, padding_mask).narrow(1, 0, 5)) == 0);
    CHECK(largest_difference(attention(padded).narrow(1, 0, 5), attention(x)) > 1e-3);
  }
}

TEST_CASE("attention: every parameter and the input get gradients") {
  std::vector<nn::AttentionConfig> configs = causal_configs();
  std::ranges::copy(whole_configs(), std::back_inserter(configs));
  for (const nn::AttentionConfig& config : configs) {
    CAPTURE(config.mechanism);
    Generator rng(10);
    const AttentionModel model(rng, config);
    Tensor x = randn({2, 9, 12}, rng, DType::float64).set_requires_grad();
    backward(sum(square((*model.attention)(x))));
    CHECK(norm(x.grad()).item<double>() > 0);
    for (const auto& [name, parameter] : model.named_parameters()) {
      CAPTURE(name);
      REQUIRE(parameter.grad().defined());
      CHECK(norm(parameter.grad()).item<double>() > 0);
    }
  }
}

TEST_CASE("attention of one projection: its gradient is made whole, and is that of separate parts to the bit") {
  const auto attend = [](const std::string& kind, const nn::Qkv& x) {
    if (kind == "softmax") return softmax_attention(x.q, x.k, x.v, {.causal = true});
    return fastmax(x.q, x.k, x.v,
                   {.causal = true, .form = kind == "quadratic" ? FastmaxForm::quadratic : FastmaxForm::factorised});
  };
  Generator rng(1);
  const Tensor projected = randn({2, 5, 3 * 12}, rng).set_requires_grad(), g = randn({2, 3, 5, 4}, rng);
  for (const char* const kind : {"softmax", "quadratic", "factorised"}) {
    CAPTURE(kind);
    const auto gradient = [&](auto&& part) {
      const auto [q, k, v] = nn::split_qkv(projected, 3);
      const Tensor o = attend(kind, {part(q), part(k), part(v)});
      const Profile profile;
      const Tensor result = grad({o}, {projected}, {.grad_outputs = {g}})[0];
      const auto copies = std::ranges::count(profile.calls(), std::string("copy"), &KernelCall::kernel);
      return std::pair(copies, result);
    };
    const auto [none, whole] = gradient([](const Tensor& x) { return x; });
    const auto [copies, joined] = gradient([](const Tensor& x) { return x.clone(); });
    CHECK(none == 0);
    CHECK(copies == 3);
    CHECK(same_bits(whole, joined));
  }
}

TEST_CASE("ShortConvolution: the step form gives what the sequence form gives, on a text shorter than its taps too") {
  struct Conv : nn::Module {
    Conv(Generator& rng, int64_t taps) : Module(rng, DType::float64), conv(*this, "conv", 6, taps, true) {}
    nn::ShortConvolution conv;
  };
  for (const int64_t taps : {1, 2, 4, 9}) {
    CAPTURE(taps);
    Generator rng(18);
    const Conv model(rng, taps);
    const Tensor h = randn({2, 5, 6}, rng, DType::float64), whole = model.conv(h);
    nn::ShortConvolution::State state;
    for (int64_t i = 0; i < 5; ++i) {
      CHECK(largest_difference(model.conv.step(state, h.narrow(1, i, 1)), whole.narrow(1, i, 1)) < 1e-15);
    }
    CHECK(state.past.size(1) == std::min<int64_t>(5, taps - 1));
  }
}

TEST_CASE("attention: dropout in training only") {
  Generator rng(12);
  std::vector<nn::AttentionConfig> configs;
  configs.push_back({.mechanism = "softmax"});
  configs.push_back({.mechanism = "fastformer"});
  configs.push_back({.mechanism = "linear"});
  configs.push_back({.mechanism = "linformer"});
  configs.push_back({.mechanism = "informer"});
  configs.push_back({.mechanism = "informer", .options = nn::InformerConfig{.queries = 2}});
  configs.push_back({.mechanism = "performer"});
  configs.push_back({.mechanism = "longformer"});
  configs.push_back({.mechanism = "bigbird"});
  configs.push_back({.mechanism = "poolingformer"});
  configs.push_back({.mechanism = "reformer"});
  configs.push_back({.mechanism = "fastmax1"});
  configs.push_back({.mechanism = "fastmax1", .options = nn::FastmaxConfig{.dropout_kind = FastmaxDropout::token}});
  configs.push_back({.mechanism = "fastmax2"});
  for (const auto kind : {FastmaxDropout::quadratic, FastmaxDropout::standard, FastmaxDropout::token}) {
    configs.push_back({.mechanism = "fastmax2", .options = nn::FastmaxConfig{.dropout_kind = kind}});
    configs.push_back({.mechanism = "fastmax2", .rotary = true, .options = nn::FastmaxConfig{.dropout_kind = kind}});
    configs.push_back(
        {.mechanism = "fastmax2",
         .options = nn::FastmaxConfig{.dropout_kind = kind, .dropout_normaliser = FastmaxNormaliser::shared}});
  }
  for (nn::AttentionConfig& config : configs) {
    config.width = 8, config.heads = 2, config.dropout = 0.5;
    AttentionModel model(rng, config);
    const Tensor x = randn({1, 6, 8}, rng, DType::float64);
    CAPTURE(config.mechanism);
    CHECK(largest_difference((*model.attention)(x), (*model.attention)(x)) > 1e-6);
    model.eval();
    const Tensor y = (*model.attention)(x);
    CHECK(largest_difference(y, (*model.attention)(x)) == 0);
  }
}

TEST_CASE("attention: a rate of dropout changes no weight that a model starts with") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    const auto initial = [&](double rate) {
      Generator rng(21);
      const AttentionModel first(rng, {.mechanism = mechanism, .width = 8, .heads = 2, .dropout = rate});
      const AttentionModel second(rng, {.mechanism = mechanism, .width = 8, .heads = 2, .dropout = rate});
      std::vector<std::vector<double>> values;
      for (const AttentionModel* model : {&first, &second}) {
        for (const auto& [name, tensor] : model->state()) values.push_back(tensor.to_vector<double>());
      }
      return values;
    };
    CHECK(initial(0) == initial(0.3));
  }
}

TEST_CASE("FastmaxAttention: its form can be forced") {
  const auto run = [](FastmaxForm form) {
    Generator rng(14);
    const AttentionModel model(rng, {.mechanism = "fastmax2",
                                     .width = 12,
                                     .heads = 3,
                                     .causal = true,
                                     .options = nn::FastmaxConfig{.form = form}});
    return (*model.attention)(randn({2, 70, 12}, rng, DType::float64));
  };
  const Tensor expected = run(FastmaxForm::reference);
  for (const FastmaxForm form : {FastmaxForm::automatic, FastmaxForm::quadratic, FastmaxForm::factorised}) {
    CHECK(largest_difference(run(form), expected) < 1e-12);
  }
}
