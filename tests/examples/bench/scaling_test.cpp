/// bench scaling: what it prints and draws, and the settings of the papers' figures.

#include <cstdint>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/bench/scaling.h"
#include "support/settings/settings.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::run_program;

TEST_CASE("bench scaling: one object a length, and pictures") {
  const Workshop shop;
  const Ended ended = run_program("bench", {"--json", "scaling", "--from", "32", "--to", "64", "--head-dims", "16",
                                            "--mechanisms", "softmax,fastformer", "--out", shop / "curves"});
  REQUIRE(ended.code == 0);
  std::istringstream lines(ended.out);
  std::vector<int64_t> tokens;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    for (const char* field : {"device", "precision", "threads"}) CHECK(object.contains(field));
    CHECK(object.value("dtype", "") == "float32");
    tokens.push_back(object["tokens"]);
  }
  CHECK(tokens == std::vector<int64_t>{32, 64, 32, 64});
  CHECK(names_in(shop / "curves") == std::vector<std::string>{"forward-16.png", "memory-16.png", "training-16.png"});
}

TEST_CASE("bench scaling and bench attention report the same memory for the same sequence") {
  const Workshop shop;
  const Ended scaling = run_program("bench", {"scaling", "--from", "1024", "--to", "1024", "--head-dims", "16",
                                              "--heads", "2", "--mechanisms", "softmax", "--out", shop / "curves"});
  const Ended attention = run_program("bench", {"--seconds", "0.001", "attention", "--tokens", "1024", "--heads", "2",
                                                "--head-dim", "16", "--mechanism", "softmax"});
  REQUIRE(scaling.code == 0);
  REQUIRE(attention.code == 0);
  const size_t begin = attention.out.find("peak ") + 5;
  const std::string peak = attention.out.substr(begin, attention.out.find(',', begin) - begin);
  CAPTURE(scaling.out);
  CHECK(scaling.out.find(peak + "\n") != std::string::npos);
}

TEST_CASE("bench scaling: how time and memory grow, beside what the papers say") {
  const Workshop shop;
  const Ended ended = done("bench", {"scaling", "--from", "512", "--to", "2048", "--head-dims", "16", "--mechanisms",
                                     "softmax,fastformer", "--out", shop / "curves"});
  const std::string growths = ended.out.substr(ended.out.find("growth with the tokens N"));
  CAPTURE(growths);
  // Times are noisy, so the test checks memory, which grows linearly for both mechanisms.
  const auto has = [&](const std::string& row) { return std::regex_search(growths, std::regex(row)); };
  CHECK(has("softmax +N\\^\\S+ +N\\^\\S+ +N\\^(0\\.9|1\\.0)\\d  N²·D\n"));
  CHECK(has("fastformer +N\\^\\S+ +N\\^\\S+ +N\\^(0\\.9|1\\.0)\\d  N·D\n"));
  const Ended few = done("bench", {"scaling", "--from", "64", "--to", "128", "--head-dims", "16", "--mechanisms",
                                   "softmax", "--out", shop / "few"});
  CHECK(few.out.find("softmax    –        –         –       N²·D") != std::string::npos);
}

TEST_CASE("bench scaling --figure wu: layers of width 256, and for each mechanism the tokens of the paper") {
  using namespace linnet;
  examples::ScalingOptions options;
  examples::Settings settings = examples::preset("shakespeare", "nanogpt-cpu");
  examples::set_figure("wu", options, settings);
  CHECK(options.layers == 2);
  CHECK(options.heads == 16);
  CHECK(options.head_dims == std::vector<int64_t>{16});
  const auto options_of = [&](const char* mechanism) {
    return examples::attention_options(examples::settings_of(mechanism, settings));
  };
  CHECK(std::any_cast<nn::LongformerConfig>(options_of("longformer")).window == 16);
  CHECK(std::any_cast<nn::LongformerConfig>(options_of("longformer")).global_tokens == 16);
  CHECK(std::any_cast<nn::BigBirdConfig>(options_of("bigbird")).block == 8);
  CHECK(std::any_cast<nn::BigBirdConfig>(options_of("bigbird")).random_blocks == 2);
  CHECK(std::any_cast<nn::LinformerConfig>(options_of("linformer")).rank == 16);
  CHECK(std::any_cast<nn::PoolingformerConfig>(options_of("poolingformer")).window == 256);
  CHECK(std::any_cast<nn::PoolingformerConfig>(options_of("poolingformer")).window2 == 512);
}

TEST_CASE("bench scaling --figure: flags go before a figure's settings, and --layers times Transformer layers") {
  const Workshop shop;
  const auto object_of = [&](const Arguments& flags) {
    const Arguments one{"--json", "scaling", "--from", "128", "--to", "128", "--mechanisms", "longformer"};
    return nlohmann::json::parse(done("bench", one + flags + Arguments{"--out", shop / "curves"}).out);
  };
  const nlohmann::json fast = object_of({"--figure", "fast"});
  CHECK(fast["heads"] == 1);
  CHECK(fast["head_dim"] == 32);
  CHECK(fast["layers"] == 0);
  CHECK(fast["window"] == "256");
  const nlohmann::json layers =
      object_of({"--figure", "wu", "--heads", "1", "--head-dims", "8", "--layers", "1", "--window", "4"});
  CHECK(layers["heads"] == 1);
  CHECK(layers["layers"] == 1);
  CHECK(layers["window"] == "4");
  CHECK(layers["global_tokens"] == "16");
  CHECK(layers["floor_ms"] > 0);  // of the linear maps
  check_refused(run_program("bench", {"scaling", "--figure", "linnet"}), 2, "--figure");
  check_refused(run_program("bench", {"scaling", "--layers", "2", "--share", "layers"}), 2,
                "--share layers does not apply to bench scaling");
}
