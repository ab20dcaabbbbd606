/// Cross-attention: queries from one sequence, keys and values from another.

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/gradient_check.h"
#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::largest_difference;
using test::same_bits;

namespace {

constexpr int64_t kWidth = 12, kHeads = 3;

nn::AttentionConfig config_of(const std::string& mechanism, const std::any& options = {}) {
  return {.mechanism = mechanism, .width = kWidth, .heads = kHeads, .max_tokens = 400, .options = options};
}

/// Every mechanism that has cross-attention, with its options.
std::vector<nn::AttentionConfig> configs() {
  std::vector<nn::AttentionConfig> all;
  for (const std::string& mechanism : nn::cross_mechanisms()) all.push_back(config_of(mechanism));
  all.push_back(config_of("softmax"));
  all.back().bias = false;
  for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
    all.push_back(config_of("fastmax1", nn::FastmaxConfig{.form = form}));
    all.push_back(config_of("fastmax2", nn::FastmaxConfig{.form = form}));
  }
  all.push_back(config_of("linformer", nn::LinformerConfig{.rank = 2, .share = nn::LinformerShare::key_value}));
  all.push_back(config_of("fastformer", nn::FastformerConfig{.share_query_value = false}));
  all.push_back(config_of("fastformer", nn::FastformerConfig{.share_heads = true}));
  all.back().bias = false;
  return all;
}

std::string name_of_config(const nn::AttentionConfig& config) {
  return config.mechanism + (config.bias ? "" : " without bias") +
         (config.options.has_value() ? " with options" : "");
}

/// A model, x [2, 7, C] and memory [2, M, C].
struct Case {
  Generator rng{5};
  AttentionModel model;
  Tensor x, memory;

  explicit Case(const nn::AttentionConfig& config, int64_t memory_tokens = 9)
      : model(rng, config),
        x(randn({2, 7, kWidth}, rng, DType::float64)),
        memory(randn({2, memory_tokens, kWidth}, rng, DType::float64)) {}
  const nn::Attention& attention() const { return *model.attention; }
  Tensor cross(const Tensor& memory_mask = {}) const { return attention().cross(x, memory, {}, memory_mask); }
  /// The step form, token by token.
  Tensor steps(const Tensor& memory_mask = {}) const {
    const std::unique_ptr<nn::AttentionState> state = attention().start(memory, memory_mask);
    std::vector<Tensor> results;
    for (int64_t t = 0; t < x.size(1); ++t) results.push_back(attention().step(*state, x.select(1, t)));
    return stack(results, 1);
  }
};

/// A mask of the memory: some tokens are hidden in the first sequence, none in the second.
Tensor some_hidden(int64_t tokens) {
  Tensor mask = ones({2, tokens}, DType::boolean);
  for (const int64_t hidden : {int64_t{0}, tokens / 2, tokens - 1}) mask[{0, hidden}] = false;
  return mask;
}

}  // namespace

TEST_CASE("cross-attention: the mechanisms that have it") {
  CHECK(nn::cross_mechanisms() == std::vector<std::string>{"softmax", "fastmax1", "fastmax2", "fastformer", "linear",
                                                           "performer", "linformer"});
}

TEST_CASE("cross-attention of a sequence to itself is the sequence form") {
  for (const nn::AttentionConfig& config : configs()) {
    if (config.mechanism == "fastformer") continue;  // its queries are those of a prefix
    CAPTURE(name_of_config(config));
    const Case c(config, 7);
    const Tensor mask = some_hidden(7);
    CHECK(largest_difference(c.attention().cross(c.x, c.x), c.attention()(c.x)) < 1e-13);
    CHECK(largest_difference(c.attention().cross(c.x, c.x, mask, mask), c.attention()(c.x, mask)) < 1e-13);
  }
}

TEST_CASE("cross-attention of softmax and fastformer is the formula") {
  const Case softmax_case(config_of("softmax"));
  const TensorMap s = softmax_case.model.state();
  const auto map = [](const TensorMap& state, const std::string& name, const Tensor& x) {
    return matmul(x, transpose(state.at("attention." + name + ".weight"))) + state.at("attention." + name + ".bias");
  };
  const auto heads = [](const Tensor& x) { return nn::split_heads(x, kHeads); };
  const double scale = 1 / std::sqrt(static_cast<double>(kWidth / kHeads));
  {
    const Tensor q = heads(map(s, "qkv", softmax_case.x).narrow(2, 0, kWidth));
    const Tensor k = heads(map(s, "qkv", softmax_case.memory).narrow(2, kWidth, kWidth));
    const Tensor v = heads(map(s, "qkv", softmax_case.memory).narrow(2, 2 * kWidth, kWidth));
    const Tensor expected = map(s, "out", nn::merge_heads(matmul(softmax(matmul(q, transpose(k)) * scale, -1), v)));
    CHECK(largest_difference(softmax_case.cross(), expected) < 1e-13);
  }
  const Case c(config_of("fastformer", nn::FastformerConfig{.share_query_value = false}));
  const TensorMap f = c.model.state();
  const Tensor query = map(f, "query", c.x), q = heads(query), k = heads(map(f, "key", c.memory)),
               v = heads(map(f, "value", c.x));
  const Tensor w_q = f.at("attention.w_q").unsqueeze(1), w_k = f.at("attention.w_k").unsqueeze(1);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < c.x.size(1); ++i) {
    const Tensor prefix = q.narrow(2, 0, i + 1);  // [B, H, i + 1, D]
    const Tensor alpha = softmax(sum(prefix * w_q, {-1}, true) * scale, 2);
    const Tensor global = sum(alpha * prefix, {2}, true);  // [B, H, 1, D]
    const Tensor p = global * k;                           // [B, H, M, D]
    const Tensor beta = softmax(sum(p * w_k, {-1}, true) * scale, 2);
    rows.push_back(sum(beta * p, {2}, true) * v.narrow(2, i, 1));
  }
  const Tensor expected = map(f, "out", nn::merge_heads(concat(rows, 2))) + query;
  CHECK(largest_difference(c.cross(), expected) < 1e-13);
}

TEST_CASE("cross-attention: the step form gives what the sequence form gives, of a memory of any length") {
  for (const nn::AttentionConfig& config : configs()) {
    CAPTURE(name_of_config(config));
    for (const int64_t tokens : {1, 9, 256, 300}) {
      CAPTURE(tokens);
      const Case c(config, tokens);
      CHECK(largest_difference(c.steps(), c.cross()) < 1e-11);
      if (tokens < 2) continue;
      CHECK(largest_difference(c.steps(some_hidden(tokens)), c.cross(some_hidden(tokens))) < 1e-11);
      // The first 256 tokens are hidden. They are a whole part of the sums.
      Tensor late = ones({2, tokens}, DType::boolean);
      late.narrow(1, 0, tokens - 1).fill_(false);
      CHECK(largest_difference(c.steps(late), c.cross(late)) < 1e-11);
    }
  }
}

TEST_CASE("cross-attention sees nothing of padding, whatever it holds") {
  for (const nn::AttentionConfig& config : configs()) {
    CAPTURE(name_of_config(config));
    Case c(config);
    const Tensor mask = some_hidden(9);
    const Tensor expected = c.cross(mask), steps = c.steps(mask);
    for (const int64_t hidden : {0, 4, 8}) c.memory[{0, hidden}] = std::numeric_limits<double>::quiet_NaN();
    CHECK(same_bits(c.cross(mask), expected));
    CHECK(same_bits(c.steps(mask), steps));
  }
}

TEST_CASE("cross-attention to a memory of padding alone, or of no tokens, adds nothing") {
  for (const nn::AttentionConfig& config : configs()) {
    CAPTURE(name_of_config(config));
    const Case c(config), none(config, 0);
    Tensor mask = ones({2, 9}, DType::boolean);
    mask[0] = false;
    // Only the bias of `out` remains, and the query of Fastformer.
    Tensor expected = zeros({7, kWidth}, DType::float64);
    if (config.bias) expected = expected + c.model.state().at("attention.out.bias");
    if (config.mechanism == "fastformer") {
      if (config.options.has_value() && std::any_cast<nn::FastformerConfig>(config.options).share_heads) continue;
      const TensorMap state = c.model.state();
      expected = expected + linear(c.x[0], state.at("attention.query.weight"), state.at("attention.query.bias"));
    }
    CHECK(largest_difference(c.cross(mask)[0], expected) < 1e-13);
    CHECK(largest_difference(c.steps(mask)[0], expected) < 1e-13);
    CHECK(largest_difference(c.steps(mask)[1], c.cross()[1]) < 1e-12);
    CHECK(largest_difference(none.steps(), none.cross()) < 1e-13);
  }
}

TEST_CASE("cross-attention: memory is a set, but for linformer, and only fastformer mixes tokens of x") {
  for (const nn::AttentionConfig& config : configs()) {
    CAPTURE(name_of_config(config));
    Case c(config);
    const Tensor y = c.cross();
    const Tensor reversed = index_select(c.memory, 1, tensor(std::vector<int64_t>{8, 7, 6, 5, 4, 3, 2, 1, 0}));
    const Tensor of_reversed = c.attention().cross(c.x, reversed);
    CHECK((largest_difference(of_reversed, y) < 1e-12) == (config.mechanism != "linformer"));
    Tensor other = c.x.clone();
    other.select(1, 3).fill_(2);
    const Tensor changed = c.attention().cross(other, c.memory);
    CHECK(same_bits(changed.narrow(1, 0, 3), y.narrow(1, 0, 3)));
    CHECK(same_bits(changed.narrow(1, 4, 3), y.narrow(1, 4, 3)) == (config.mechanism != "fastformer"));
  }
}

TEST_CASE("cross-attention: gradients agree with central differences") {
  for (const nn::AttentionConfig& config : configs()) {
    CAPTURE(name_of_config(config));
    const Case c(config, 5);
    Tensor mask = ones({2, 5}, DType::boolean);
    mask[{0, 4}] = false;
    mask[1] = false;
    const auto result = test::check_gradients(
        [&](const std::vector<Tensor>& in) { return c.attention().cross(in[0], in[1], {}, mask); },
        {c.x.narrow(1, 0, 3).contiguous(), c.memory}, {.twice = false});
    CHECK_MESSAGE(result.failure.empty(), result.failure);
    Tensor x = c.x, loss = sum(square(c.attention().cross(x, c.memory)));
    for (const Tensor& gradient : grad({loss}, c.model.parameters())) CHECK(sum(abs(gradient)).item() < 1e9);
  }
}

TEST_CASE("cross-attention drops while it trains") {
  for (nn::AttentionConfig config : configs()) {
    CAPTURE(name_of_config(config));
    config.dropout = 0.5;
    if (config.mechanism == "fastmax1" || config.mechanism == "fastmax2") {
      auto options = nn::options_of<nn::FastmaxConfig>(config);
      options.dropout_kind = FastmaxDropout::token;
      config.options = options;
    }
    Case c(config);
    CHECK_FALSE(same_bits(c.cross(), c.cross()));
    c.model.eval();
    CHECK(same_bits(c.cross(), c.cross()));
  }
}

TEST_CASE("cross-attention: what it refuses") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    if (nn::find_mechanism(mechanism).cross) continue;
    CAPTURE(mechanism);
    const Case c(config_of(mechanism));
    const std::string error = mechanism +
                              " has no cross-attention, since it chooses keys within one sequence; use "
                              "one of softmax, fastmax1, fastmax2, fastformer, linear, performer, linformer";
    CHECK_THROWS_WITH_AS(c.cross(), doctest::Contains(error.c_str()), ValueError);
    CHECK_THROWS_WITH_AS(c.steps(), doctest::Contains(error.c_str()), ValueError);
  }
  const Case c(config_of("softmax"));
  const nn::Attention& attention = c.attention();
  const auto bool_of = [](const Shape& shape) { return ones(shape, DType::boolean); };
  CHECK_THROWS_WITH_AS(attention.cross(c.x, c.memory[0]), doctest::Contains("memory should be [batch, tokens, 12]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(attention.cross(c.x, c.memory.narrow(0, 0, 1)),
                       doctest::Contains("x has a batch of 2, memory one of 1"), ShapeError);
  CHECK_THROWS_WITH_AS(attention.cross(c.x, c.memory, {}, bool_of({2, 7})),
                       doctest::Contains("memory_mask should be bool [2, 9], not bool [2, 7]"), ShapeError);
  CHECK_THROWS_WITH_AS(attention.cross(c.x, c.memory, bool_of({2, 9})),
                       doctest::Contains("padding_mask should be bool [2, 7]"), ShapeError);
  CHECK_THROWS_WITH_AS(attention.start(c.memory, ones({2, 9})), doctest::Contains("memory_mask should be bool"),
                       ShapeError);
  const auto state = attention.start(c.memory);
  CHECK_THROWS_WITH_AS(attention.step(*state, c.x.select(1, 0).narrow(0, 0, 1)),
                       doctest::Contains("x has a batch of 1, the state one of 2"), ShapeError);

  nn::AttentionConfig rotary = config_of("softmax"), conv = config_of("linear");
  rotary.rotary = true;
  conv.short_conv = 3;
  CHECK_THROWS_WITH_AS(Case(rotary).cross(), doctest::Contains("cross-attention takes no rotary positions"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Case(conv).steps(), doctest::Contains("cross-attention takes no short convolution"),
                       ValueError);
  for (const nn::FastformerConfig& options :
       {nn::FastformerConfig{.full_logits = true}, nn::FastformerConfig{.projections = 2},
        nn::FastformerConfig{.interaction = Interaction::add}}) {
    CHECK_THROWS_WITH_AS(Case(config_of("fastformer", options)).cross(),
                         doctest::Contains("cross-attention takes three projections, logits per head and"),
                         ValueError);
  }
  nn::AttentionConfig small = config_of("linformer");
  small.max_tokens = 8;
  CHECK_THROWS_WITH_AS(Case(small).cross(), doctest::Contains("9 tokens, but e[8, 8] projects 8 at most"),
                       ValueError);
  CHECK_THROWS_WITH_AS(Case(small).steps(), doctest::Contains("memory has 9 tokens, above the 8"), ValueError);
}
