/// The descriptions of mechanisms, and that no other code repeats them.

#include <doctest/doctest.h>

#include <any>
#include <filesystem>
#include <set>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"
#include "tests/support/registered_mechanism.h"
#include "tests/support/sources.h"

using namespace linnet;

TEST_CASE("Mechanism: the text of every option is one that the option takes, and so is every word") {
  for (const nn::Mechanism& mechanism : nn::mechanisms()) {
    CAPTURE(mechanism.name);
    CHECK_FALSE(mechanism.paper.empty());
    for (const nn::AttentionOption& option : mechanism.option_list) {
      CAPTURE(option.name);
      std::any options = mechanism.options;
      const std::string text = option.get(options);
      option.set(options, text);
      CHECK(option.get(options) == text);
      for (const std::string& word : option.words) {
        option.set(options, word);
        CHECK(option.get(options) == word);
      }
      for (const char* wrong : {"", "nonsense", "-1"}) CHECK_THROWS_AS(option.set(options, wrong), ValueError);
      CHECK(option.get(options) == (option.words.empty() ? text : option.words.back()));
    }
  }
}

TEST_CASE("Mechanism: numbers and lists of words among the options") {
  const auto set = [](const char* mechanism, const std::string& name, const char* text) {
    const nn::Mechanism& m = nn::find_mechanism(mechanism);
    std::any options = m.options;
    m.option(name)->set(options, text);
    return options;
  };
  const auto scaled = std::any_cast<nn::FastmaxConfig>(set("fastmax2", "fastmax_scale", "0.25"));
  CHECK(scaled.scale == std::variant<FastmaxScale, double>(0.25));
  CHECK(std::any_cast<nn::FastformerConfig>(set("fastformer", "projections", "5")).projections == 5);
  const auto shared = std::any_cast<nn::FastformerConfig>(set("fastformer", "share", "query-value,heads"));
  CHECK((shared.share_query_value && shared.share_heads));
  const auto apart = std::any_cast<nn::FastformerConfig>(set("fastformer", "share", "none"));
  CHECK((!apart.share_query_value && !apart.share_heads));
  CHECK_THROWS_WITH_AS(set("fastformer", "projections", "17"), "must be from 2 to 16", ValueError);
  CHECK_THROWS_WITH_AS(set("fastmax2", "fastmax_form", "cubic"), "must be one of auto, quadratic, factorised",
                       ValueError);
  CHECK_THROWS_WITH_AS(set("fastmax2", "fastmax_scale", "0"), "must be paper, sqrt, unit or a positive number",
                       ValueError);
}

TEST_CASE("Mechanism::option finds an option by its whole name") {
  const nn::Mechanism& m = nn::find_mechanism("fastmax2");
  REQUIRE(m.option("dropout_kind") != nullptr);
  CHECK(m.option("dropout_kind")->name == "dropout_kind");
  CHECK(m.option("dropout") == nullptr);
  CHECK(nn::find_mechanism("softmax").option("dropout_kind") == nullptr);
}

TEST_CASE("register_mechanism refuses a name that there is already, and what cannot be made") {
  CHECK_THROWS_WITH_AS(nn::register_mechanism({.name = "softmax", .make = nn::maker<nn::SoftmaxAttention>()}),
                       "there is a mechanism 'softmax' already; choose another name", ValueError);
  CHECK_THROWS_WITH_AS(nn::register_mechanism({.name = "new"}), doctest::Contains("needs a name and `make`"),
                       ValueError);
  CHECK(nn::attention_mechanisms() == std::vector<std::string>{"softmax", "fastmax1", "fastmax2", "fastformer",
                                                               "linear", "performer", "linformer", "longformer",
                                                               "bigbird", "poolingformer", "reformer", "informer"});
}

TEST_CASE(
    "a mechanism without a causal form is refused where causal is asked for, with the names of those that have one") {
  const test::RegisteredMechanism whole(
      {.name = "whole", .make = nn::maker<nn::SoftmaxAttention>(), .causal = false});
  CHECK(nn::causal_mechanisms() == std::vector<std::string>{"softmax", "fastmax1", "fastmax2", "fastformer", "linear",
                                                            "performer", "longformer", "poolingformer", "reformer"});
  CHECK(nn::attention_mechanisms().back() == "whole");
  Generator rng(1);
  nn::AttentionConfig config{.mechanism = "whole", .width = 4};
  const test::AttentionModel model(rng, config);
  CHECK((*model.attention)(ones({1, 3, 4}, DType::float64)).shape() == Shape{1, 3, 4});
  config.causal = true;
  CHECK_THROWS_WITH_AS(
      test::AttentionModel(rng, config),
      "attention: whole has no causal form; choose one of softmax, fastmax1, fastmax2, fastformer, linear, "
      "performer, longformer, poolingformer, reformer",
      ValueError);
  {
    const test::RegisteredMechanism other({.name = "other",
                                           .make = nn::maker<nn::SoftmaxAttention>(),
                                           .causal = false,
                                           .why_not_causal = "it reads backwards"});
    CHECK_THROWS_WITH_AS(test::AttentionModel(rng, {.mechanism = "other", .width = 4, .causal = true}),
                         doctest::Contains("other has no causal form (it reads backwards); choose one of softmax"),
                         ValueError);
  }
  config.causal = false;  // a language model sets it to true
  CHECK_THROWS_WITH_AS(nn::DecoderLM(rng, {.vocabulary = 5, .context = 4, .block = {.attention = config}}),
                       doctest::Contains("blocks.0.attention: whole has no causal form"), ValueError);
}

TEST_CASE("a mechanism whose description has no step form does not start one, causal or not") {
  const test::RegisteredMechanism whole({.name = "whole", .make = nn::maker<nn::SoftmaxAttention>(), .step = false});
  Generator rng(1);
  const test::AttentionModel causal(rng, {.mechanism = "whole", .width = 4, .causal = true});
  CHECK_THROWS_WITH_AS(causal.attention->start(), doctest::Contains("whole has no step form; call it on all tokens"),
                       ValueError);
  const test::AttentionModel other(rng, {.mechanism = "whole", .width = 4});
  CHECK_THROWS_WITH_AS(other.attention->start(), doctest::Contains("only causal attention has a step form"),
                       ValueError);
}

namespace {

/// An attention that gives back its input, and has no step form.
class Identity : public nn::Attention {
 public:
  Identity(nn::Module& parent, std::string name, const nn::AttentionConfig& config)
      : Attention(parent, std::move(name), config) {}

 private:
  Tensor forward(const Tensor& x, const Tensor&) const override { return x; }
  std::vector<nn::AttentionMap> forward_maps(const Tensor&, const Tensor&) const override { return {}; }
};

}  // namespace

TEST_CASE("an attention class without a step form does not start one either") {
  Generator rng(1);
  const test::AttentionModel model(
      rng, {.mechanism = "identity", .width = 4, .causal = true, .make = nn::maker<Identity>()});
  CHECK_THROWS_WITH_AS(model.attention->start(), doctest::Contains("identity has no step form"), ValueError);
}

TEST_CASE("Mechanism::note says where a mechanism is softmax attention, and nothing where it is not, or may not be") {
  const auto note = [](nn::AttentionConfig config, int64_t tokens) {
    config.max_tokens = tokens;
    return nn::find_mechanism(config.mechanism).note(config);
  };
  const nn::AttentionConfig bigbird{.mechanism = "bigbird"};
  CHECK(note(bigbird, 49) == "softmax attention, since 49 tokens make fewer than 8 blocks of 16");
  CHECK_FALSE(note(bigbird, 112).empty());
  CHECK(note(bigbird, 113) == "");
  CHECK(note({.mechanism = "bigbird", .options = nn::BigBirdConfig{.block = 4, .random_blocks = 0}}, 21) == "");
  const nn::LongformerConfig window{.window = 8};
  CHECK(note({.mechanism = "longformer", .options = window}, 5) ==
        "the window of 8 covers all 5 tokens, as in softmax attention");
  CHECK(note({.mechanism = "longformer", .options = window}, 6) == "");
  CHECK_FALSE(note({.mechanism = "longformer", .causal = true, .options = window}, 9).empty());
  CHECK(note({.mechanism = "longformer", .causal = true, .options = window}, 10) == "");
  CHECK(note({.mechanism = "longformer", .options = nn::LongformerConfig{.window = 8, .dilation = {2}}}, 5) == "");
  const nn::PoolingformerConfig pools{.window = 8};
  CHECK_FALSE(note({.mechanism = "poolingformer", .options = pools}, 5).empty());
  CHECK(note({.mechanism = "poolingformer", .options = pools}, 6) == "");
  for (const char* mechanism : {"bigbird", "longformer", "poolingformer"}) {
    CHECK(note({.mechanism = mechanism}, 0) == "");  // the number of tokens is not known
  }
}

TEST_CASE("Mechanism: where bigbird is softmax attention, it says so, and has its operations") {
  Generator rng(3);
  const nn::Mechanism& bigbird = nn::find_mechanism("bigbird");
  const nn::BigBirdConfig options{.block = 2, .random_blocks = 0};
  for (const int64_t tokens : {9, 10, 11, 12}) {
    CAPTURE(tokens);
    const Tensor q = randn({1, 1, tokens, 4}, rng, DType::float64), v = randn({1, 1, tokens, 4}, rng, DType::float64);
    const bool is_softmax =
        max(abs(bigbird_attention(q, q, v, {.block = 2}) - softmax_attention(q, q, v))).item() < 1e-12;
    CHECK(is_softmax == (tokens <= 10));
    CHECK(bigbird.note({.mechanism = "bigbird", .max_tokens = tokens, .options = options}).empty() != is_softmax);
    const nn::AttentionSize size{.tokens = tokens, .head_dim = 4, .options = options};
    CHECK((bigbird.operations(size, {}) == nn::quadratic_operations(size, {})) == is_softmax);
  }
}

TEST_CASE("least_qkv_bytes: eleven tensors [B, H, N, D] of the dtype") {
  nn::AttentionSize size{.batch = 2, .heads = 3, .tokens = 5, .head_dim = 7, .causal = true};
  CHECK(nn::least_qkv_bytes(size) == 11 * 2 * 3 * 5 * 7 * 4);
  size.dtype = DType::bfloat16;
  CHECK(nn::least_qkv_bytes(size) == 11 * 2 * 3 * 5 * 7 * 2);
}

TEST_CASE("mechanisms are called by name in their own files, and where the subject is theirs, alone") {
  // These may name mechanisms: figures and tables of the two papers, and models that are known for their attention.
  const std::set<std::string> subjects{"examples/ablations.cpp",
                                       "examples/attention_maps.cpp",
                                       "examples/recommend.cpp",
                                       "examples/support/bench/crossover.cpp",
                                       "examples/support/bench/crossover.h",
                                       "examples/support/bench/scaling.cpp",
                                       "examples/support/report/published.cpp",
                                       "examples/support/settings/presets.cpp",
                                       "examples/support/settings/summaries.cpp",
                                       "nn/models/fastformer_encoder.cpp",
                                       "nn/models/gpt2.cpp"};
  for (const std::string& name : linnet::test::files_below({"nn", "examples"})) {
    const bool is_code = name.ends_with(".h") || name.ends_with(".cpp");
    if (!is_code || name.starts_with("nn/attention/") || subjects.contains(name)) continue;
    if (name.starts_with("examples/tutorial/")) continue;  // it teaches the mechanisms
    const std::string text = linnet::test::read_bytes(std::filesystem::path(LINNET_SOURCE_DIR) / name);
    for (const char* mechanism :
         {"\"fastmax", "\"fastformer\"", "\"linear\"", "\"performer\"", "\"linformer\"", "\"longformer\"",
          "\"bigbird\"", "\"poolingformer\"", "\"reformer\"", "\"informer\"", "== \"softmax\""}) {
      CAPTURE(mechanism);
      CHECK_MESSAGE(text.find(mechanism) == std::string::npos, name);
    }
  }
}
