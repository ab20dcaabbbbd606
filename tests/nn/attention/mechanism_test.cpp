/// What mechanisms say about themselves, and that nobody else says it.

#include <doctest/doctest.h>

#include <any>
#include <filesystem>
#include <set>

#include <linnet/linnet.h>

#include "tests/support/files.h"
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
  CHECK(nn::attention_mechanisms() == std::vector<std::string>{"softmax", "fastmax1", "fastmax2", "fastformer"});
}

TEST_CASE("mechanisms are called by name in their own files, and where the subject is theirs, alone") {
  // A figure or a table of one of the two papers, and models whose attention is what they are known for.
  const std::set<std::string> subjects{"examples/ablations.cpp",
                                       "examples/attention_maps.cpp",
                                       "examples/recommend.cpp",
                                       "examples/support/bench/crossover.cpp",
                                       "examples/support/bench/crossover.h",
                                       "nn/models/fastformer_encoder.cpp",
                                       "nn/models/gpt2.cpp"};
  for (const std::string& name : linnet::test::files_below({"nn", "examples"})) {
    const bool is_code = name.ends_with(".h") || name.ends_with(".cpp");
    if (!is_code || name.starts_with("nn/attention/") || subjects.contains(name)) continue;
    const std::string text = linnet::test::read_bytes(std::filesystem::path(LINNET_SOURCE_DIR) / name);
    for (const char* mechanism : {"\"fastmax", "\"fastformer\"", "== \"softmax\""}) {
      CAPTURE(mechanism);
      CHECK_MESSAGE(text.find(mechanism) == std::string::npos, name);
    }
  }
}
