/// The options that presets give to mechanisms, and the mechanisms' own defaults.

#include <any>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "support/settings/program.h"
#include "support/settings/settings.h"
#include "tests/examples/run/tiny_run.h"

namespace linnet::examples {
namespace {

using Windows = std::pair<int64_t, int64_t>;

Windows pooling_windows(const std::string& task, const std::string& name) {
  const Settings s = settings_of("poolingformer", preset(task, name));
  const auto options = std::any_cast<nn::PoolingformerConfig>(attention_options(s));
  CHECK(to_json(s)["window"] == options.window);
  CHECK(describe(s).starts_with("preset " + name + ", " + length_of(s)));
  CHECK(std::any_cast<nn::PoolingformerConfig>(attention_options(settings_from_json(to_json(s)))).window2 ==
        options.window2);
  return {options.window, options.window2};
}

}  // namespace

TEST_CASE("presets: sizes and training as in table 9 of Wu et al. 2021") {
  struct Row {
    const char *task, *name;
    int64_t layers;
    double lr;
    int64_t batch, epochs, context;
  };
  const int64_t unset = Settings{}.context;  // tasks of users have lengths of their own
  const std::vector<Row> rows{{"amazon", "classify-amazon", 2, 1e-3, 64, 3, 512},
                              {"imdb", "classify-imdb", 2, 1e-3, 64, 3, 1024},
                              {"mind-topics", "classify-mind-topics", 2, 1e-3, 64, 3, 2048},
                              {"own-texts", "classify-own-texts", 2, 1e-3, 64, 3, 512},
                              {"recommendation", "mind", 1, 1e-4, 64, 3, unset},
                              {"conversion", "conversion", 1, 1e-4, 64, 3, unset},
                              {"cnn-dailymail", "summarise-cnn-dailymail", 4, 1e-4, 32, 12, 2048},
                              {"pubmed", "summarise-pubmed", 2, 1e-4, 32, 15, 4096}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Settings s = preset(row.task, row.name);
    CHECK(std::tuple(s.layers, s.lr, s.min_lr) == std::tuple(row.layers, row.lr, row.lr));
    CHECK(std::tuple(s.batch, s.epochs, s.steps, s.context) == std::tuple(row.batch, row.epochs, 0, row.context));
    CHECK(std::tuple(s.heads, s.width, s.dropout, s.attention_dropout) == std::tuple(16, 256, 0.2, 0.0));
    CHECK(std::tuple(s.beta1, s.beta2, s.weight_decay) == std::tuple(0.9, 0.999, 0.0));
  }
}

TEST_CASE("presets: Poolingformer's windows are its own, as in table 9 of Wu et al. 2021") {
  CHECK(pooling_windows("amazon", "classify-amazon") == Windows(64, 128));
  CHECK(pooling_windows("imdb", "classify-imdb") == Windows(64, 128));
  CHECK(pooling_windows("mind-topics", "classify-mind-topics") == Windows(256, 512));
  CHECK(pooling_windows("recommendation", "mind") == Windows(64, 128));
  CHECK(pooling_windows("cnn-dailymail", "summarise-cnn-dailymail") == Windows(256, 512));
  CHECK(pooling_windows("pubmed", "summarise-pubmed") == Windows(256, 512));
  CHECK(pooling_windows("speakers", "classify-speakers-small") == Windows(8, 64));
  CHECK(pooling_windows("recommendation", "clicks-small") == Windows(8, 8));
  const Settings s = settings_of("longformer", preset("amazon", "classify-amazon"));
  CHECK(std::any_cast<nn::LongformerConfig>(attention_options(s)).window == 8);
}

TEST_CASE("presets: a flag goes before a mechanism's own option") {
  using namespace test;
  const Workshop shop;
  linnet::test::write_bytes(shop / "texts.tsv", [] {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += (i % 2 == 0 ? "odd\tone and " : "even\ttwo and ") + std::to_string(i) + "\n";
    return lines;
  }());
  const auto windows = [&](const std::string& out, const Arguments& flags) {
    const Arguments tiny{"--task",       "own-texts",
                         "--preset",     "classify-own-texts",
                         "--data",       shop / "texts.tsv",
                         "--layers",     "1",
                         "--width",      "16",
                         "--heads",      "2",
                         "--steps",      "1",
                         "--eval-every", "1",
                         "--batch",      "4"};
    done("compare", tiny + Arguments{"--attention", "longformer,poolingformer", "--out", shop / out} + flags);
    const nlohmann::json first = config_of(shop / (out + "/longformer"))["settings"];
    const nlohmann::json second = config_of(shop / (out + "/poolingformer"))["settings"];
    return std::vector<int>{first["window"].get<int>(), second["window"].get<int>(), second["window2"].get<int>()};
  };
  CHECK(windows("preset", {}) == std::vector{8, 64, 128});
  CHECK(windows("flags", {"--window", "6"}) == std::vector{6, 6, 128});
}

TEST_CASE("mechanisms: the programs' defaults are those of the papers") {
  const std::map<std::string, std::map<std::string, std::string>> expected{
      {"softmax", {}},
      {"linear", {{"dropout_kind", "token"}}},
      {"performer", {{"performer_features", "auto"}, {"performer_redraw", "1000"}, {"dropout_kind", "token"}}},
      {"linformer", {{"linformer_rank", "0"}, {"linformer_share", "headwise"}}},  // 0 means 64
      {"longformer", {{"window", "256"}, {"dilation", "1"}, {"global_tokens", "1"}}},
      {"bigbird", {{"block", "16"}, {"random_blocks", "1"}}},
      {"poolingformer", {{"window", "256"}, {"window2", "512"}, {"pooling", "conv"}}},
      {"reformer", {{"hashes", "4"}, {"chunk", "64"}}},
      {"informer", {{"informer_factor", "5"}, {"informer_queries", "0"}}}};
  for (const auto& [name, options] : expected) {
    CAPTURE(name);
    const nn::Mechanism& mechanism = nn::find_mechanism(name);
    std::map<std::string, std::string> found;
    for (const nn::AttentionOption& option : mechanism.option_list) {
      found[option.name] = option.get(mechanism.options);
    }
    CHECK(found == options);
  }
  const nn::PoolingformerConfig pools;
  CHECK(pools.kernel == 5);
  CHECK(pools.stride == 4);
  CHECK(performer_features(32) == 110);
}

}  // namespace linnet::examples
