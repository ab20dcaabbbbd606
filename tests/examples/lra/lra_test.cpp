/// The program lra: training, the best weights, results of several runs, and refusals.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

#include "support/lra/load.h"
#include "support/run/run_folder.h"
#include "support/run/training.h"
#include "support/tasks/task.h"
#include "tests/examples/lra/expressions.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::examples::test;
using examples::Settings;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::near;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

TEST_CASE("lra: every mechanism trains, and says what it learned from") {
  const Expressions shop;
  for (const std::string& attention : nn::attention_mechanisms()) {
    CAPTURE(attention);
    const Ended ended = done("lra", shop.tiny(attention, attention));
    CHECK(ended.out.find(attention + " on ") == 0);
    CHECK(ended.out.find("test, of step ") != std::string::npos);
    const nlohmann::json config = config_of(shop / attention);
    CHECK(config["settings"]["task"] == "listops");
    CHECK(config["settings"]["pool"] == "padded");
    CHECK(config["data"].get<std::string>().starts_with("listops ("));
    CHECK(names_in(shop / attention) == std::vector<std::string>{"checkpoint.safetensors", "config.json", "loss.png",
                                                                 "metrics.jsonl", "model.safetensors", "results.json",
                                                                 "train_loss.csv"});
  }
}

TEST_CASE("lra: the final weights are those of the best evaluation") {
  const Expressions shop;
  // With this high rate later weights are worse, so that the best ones are not the last.
  const Arguments flags = Arguments{"--lr", "0.3", "--warmup", "1", "--steps", "12", "--eval-every", "1"};
  done("lra", shop.tiny("run") + flags);
  const std::vector<nlohmann::json> metrics = metrics_of(shop / "run");
  REQUIRE(metrics.size() == 13);
  const auto best =
      std::ranges::max_element(metrics, {}, [](const auto& m) { return m["accuracy"].template get<double>(); });
  REQUIRE(best != metrics.end() - 1);
  const nlohmann::json results = results_of(shop / "run");
  CHECK(results["step"] == (*best)["step"]);

  // The test data are not the data that chose the weights.
  Settings settings = examples::read_config(shop / "run");
  const examples::SequenceData data = examples::load_sequences(settings);
  Generator rng(settings.seed);
  nn::SequenceClassifier network(rng, examples::sequence_model_config(settings));
  network.load(shop / "run/model.safetensors");
  network.eval();
  const auto correct = [&](const examples::LabelledSequences& part) {
    std::vector<int64_t> all(static_cast<size_t>(part.size()));
    std::iota(all.begin(), all.end(), 0);
    const nn::Batch batch = part.collate(all, {});
    return accuracy(network(batch.inputs, batch.others[0]), batch.targets);
  };
  CHECK(results["accuracy"].get<double>() == doctest::Approx(correct(data.test)));
  CHECK((*best)["accuracy"].get<double>() == doctest::Approx(correct(data.dev)));

  const Safetensors model = read_safetensors(shop / "run/model.safetensors");
  const Safetensors checkpoint = read_safetensors(shop / "run/checkpoint.safetensors");
  const auto head = [](const Safetensors& file, const std::string& name) {
    return file.tensors.at(name + "fc2.bias").to_vector<float>();
  };
  CHECK(head(model, "") == head(checkpoint, "best.weights."));
  CHECK(head(model, "") != head(checkpoint, "model."));
}

TEST_CASE("lra: a run that was killed ends with the bits of one that was not") {
  const Expressions shop;
  const Arguments flags{"--steps", "60", "--eval-every", "5", "--checkpoint-every", "7", "--dropout", "0.1"};
  done("lra", shop.tiny("whole") + flags);
  ChildProgram child("lra", shop.tiny("killed") + flags);
  while (child.running() && (!fs::exists(shop / "killed/metrics.jsonl") || metrics_of(shop / "killed").size() < 4)) {
  }
  child.kill();
  (void)child.wait();
  done("lra", {"--task", "listops", "--resume", "--out", shop / "killed"});
  CHECK(read_bytes(shop / "killed/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
  nlohmann::json whole = results_of(shop / "whole"), killed = results_of(shop / "killed");
  check_refused(run_program("lra", {"--task", "digits", "--resume", "--out", shop / "killed"}), 2,
                "--task digits: the run in " + (shop / "killed").string() + " is one of --task listops; name that");
  for (const char* const field : {"step", "loss", "accuracy", "parameters"}) CHECK(whole[field] == killed[field]);
}

TEST_CASE("lra: the number of threads changes no bit") {
  const Expressions shop;
  for (const std::string threads : {"1", "2", "3"}) done("lra", shop.tiny(threads) + Arguments{"--threads", threads});
  CHECK(read_bytes(shop / "2/model.safetensors") == read_bytes(shop / "1/model.safetensors"));
  CHECK(read_bytes(shop / "3/model.safetensors") == read_bytes(shop / "1/model.safetensors"));
}

TEST_CASE("lra: a table and figures of several runs") {
  const Expressions shop;
  for (const std::string seed : {"1", "2"})
    done("lra", shop.tiny("runs/softmax-" + seed) + Arguments{"--seed", seed});
  done("lra", shop.tiny("runs/fastmax2", "fastmax2") + Arguments{"--seed", "1"});
  done("lra", shop.tiny("runs/fastformer", "fastformer") + Arguments{"--seed", "1"});
  for (const std::string name : {"64", "128"}) {
    done("lra",
         shop.tiny("runs/performer-" + name, "performer") + Arguments{"--seed", "1", "--performer-features", name});
  }
  done("lra", shop.tiny("runs/again") + Arguments{"--seed", "2"});
  write_bytes(shop / "runs/results.json", "{}");  // belongs to no run
  const Ended table = done("lra", {"--table", "--out", shop / "runs"});
  CHECK(table.out.find("(2 seeds)") != std::string::npos);
  const double first = results_of(shop / "runs/softmax-1")["accuracy"],
               second = results_of(shop / "runs/softmax-2")["accuracy"];
  CHECK(table.out.find(fmt::format("{:.2f} ± ", 50 * (first + second))) != std::string::npos);
  // One table has all of them, performer twice. No run of six steps is listed beside the published results.
  const std::string own = table.out.substr(0, table.out.find("Test accuracy in %"));
  // The title, the header with its rule, the rows, the constant answer, softmax's seeds, the machine, an empty line.
  CHECK(std::ranges::count(own, '\n') == 1 + 2 + 5 + 1 + 1 + 1 + 1);
  for (const char* const row :
       {"\nsoftmax ", "\nfastmax2 ", "\nfastformer ", "\nperformer ", "\nperformer, performer features 64 "}) {
    CAPTURE(row);
    CHECK(own.find(row) != std::string::npos);
  }
  CHECK(table.out.find("linnet, presets") == std::string::npos);
  CHECK(table.err.find("has the settings and the seed of") != std::string::npos);
  CHECK(table.err.find("leaving out " + (shop / "runs").string() + ": ") != std::string::npos);
  CHECK(table.out.find("57.90") != std::string::npos);  // the average that Gerami et al. print for fastmax2

  std::istringstream paths(done("lra", {"--figures", "--out", shop / "runs"}).out);
  for (const std::string name : {"-accuracy.png", "-loss.png", "-loss-seconds.png"}) {
    std::string path;
    REQUIRE(std::getline(paths, path));
    CHECK(path.starts_with((shop / "runs/lra-listops-").string()));
    CHECK(path.ends_with(name));
    CHECK(fs::exists(path));
  }
}

TEST_CASE("lra: the rate rises from a 25th to its peak and falls to nearly nothing, in straight lines") {
  const Expressions shop;
  done("lra", shop.tiny("run") + Arguments{"--steps", "10", "--warmup", "4", "--lr", "0.01", "--eval-every", "1"});
  std::vector<double>
      rates;  // PyTorch's OneCycleLR(max_lr=0.01, total_steps=10, pct_start=0.4, anneal_strategy="linear")
  for (const nlohmann::json& line : metrics_of(shop / "run")) rates.push_back(line["lr"]);
  REQUIRE(rates.size() == 11);
  CHECK(rates[0] == near(0.0004));
  CHECK(rates[1] == near(0.0036));
  CHECK(rates[3] == near(0.01));
  CHECK(rates[6] == near(0.01 / 2 + 4e-8 / 2));
  CHECK(rates[9] == near(4e-8, 1e-9));
}

TEST_CASE("lra: what the presets change is in the training step") {
  const Expressions shop;
  const auto model = [&](const std::string& out, const std::function<void(Settings&)>& change) {
    Settings settings = examples::preset("listops", "lra-listops");
    settings.data = shop / "data";
    settings.out = shop / out;
    settings.batch = 8;
    settings.steps = 3;
    settings.warmup = 1;
    settings.dropout = settings.attention_dropout = 0;
    settings.options = {};
    change(settings);
    const auto task = examples::make_task(settings);
    examples::train(*task, settings);
    return read_bytes(settings.out / "model.safetensors");
  };
  const std::string all = model("all", [](Settings& s) { s.keep_best = false; });
  CHECK(model("same", [](Settings& s) { s.keep_best = false; }) == all);
  CHECK(model("no cycle", [](Settings& s) { s.keep_best = s.cycle_momentum = false; }) != all);
  CHECK(model("clipped", [](Settings& s) {
          s.keep_best = false;
          s.clip_value = 1e-3;
        }) != all);
  CHECK(model("eps", [](Settings& s) {
          s.keep_best = false;
          s.eps = 1e-3;
        }) != all);
}

TEST_CASE("lra: the numbers of every preset are the published ones") {
  struct Row {
    const char *task, *name;
    int64_t batch, warmup, steps, context;
    double lr, clip_value;
  };
  const std::vector<Row> rows{{"listops", "", 32, 1000, 50000, 1999, 1e-4, 1},
                              {"text", "", 16, 80, 50000, 4000, 1e-4, 1},
                              {"retrieval", "", 16, 800, 50000, 4000, 2e-4, 1},
                              {"image", "", 256, 175, 50000, 1024, 1e-4, 1},
                              {"pathfinder", "", 128, 312, 50000, 1024, 2e-4, 1},
                              {"listops", "-nystrom", 32, 1000, 5000, 1999, 1e-4, 0},
                              {"text", "-nystrom", 32, 8000, 20000, 4000, 1e-4, 0},
                              {"retrieval", "-nystrom", 32, 800, 30000, 4000, 1e-4, 0},
                              {"image", "-nystrom", 256, 175, 35000, 1024, 1e-4, 0},
                              {"pathfinder", "-nystrom", 256, 312, 62400, 1024, 1e-4, 0},
                              {"listops", "-small", 32, 200, 2000, 256, 1e-3, 0},
                              {"image", "-small", 64, 200, 2000, 256, 1e-3, 0},
                              {"pathfinder", "-small", 64, 300, 3000, 1024, 1e-3, 0},
                              {"digits", "", 64, 1000, 50000, 784, 1e-3, 1},
                              {"digits", "-small", 64, 200, 2000, 196, 1e-3, 0}};
  for (const Row& row : rows) {
    const std::string name = std::string("lra-") + row.task + row.name;
    CAPTURE(name);
    Settings s = examples::preset(row.task, name);
    CHECK(s.batch == row.batch);
    CHECK(s.warmup == row.warmup);
    CHECK(s.steps == row.steps);
    CHECK(s.context == row.context);
    CHECK(s.lr == row.lr);
    CHECK(s.clip_value == row.clip_value);
    CHECK(std::tuple(s.layers, s.heads, s.width, s.feed_forward) == std::tuple(2, 2, 64, 2));
    CHECK(std::tuple(s.dropout, s.attention_dropout, s.beta1, s.beta2, s.eps, s.weight_decay) ==
          std::tuple(0.1, 0.1, 0.9, 0.999, 1e-6, 0.0));
    std::map<std::string, std::string> options = {
        {"linformer_rank", "128"}, {"performer_features", "128"}, {"informer_queries", "128"}, {"hashes", "2"},
        {"block", "64"},           {"random_blocks", "3"}};
    if (name.ends_with("-nystrom")) options["linformer_rank"] = options["performer_features"] = "256";
    if (name.ends_with("-small")) options = {};
    CHECK(s.options == options);
    CHECK(s.own_options.empty());
    s.options = {};
    CHECK(examples::describe_model(s).starts_with("preset " + name));
    CHECK(examples::describe_model(s).find("warmup") == std::string::npos);
    CHECK(examples::sequence_model_config(s).max_tokens >= s.context);
    if (name.ends_with("-small")) CHECK(std::tuple(s.eval_every, s.eval_batches * s.batch) == std::tuple(100, 2048));
  }
  Settings s = examples::preset("listops", "lra-listops-nystrom");
  s.options = {};
  CHECK(examples::sequence_model_config(s).max_tokens == 2048);
  s.steps = 1000;
  s.warmup = examples::shortened_warmup(examples::preset("listops", "lra-listops-nystrom"), 1000);
  CHECK(s.warmup == 100);
}

TEST_CASE("bench times a step of lra's presets on random tokens, without any data") {
  const Ended ended = done("bench", {"--json", "--seconds", "0.001", "step", "--preset", "lra-retrieval", "--context",
                                     "24", "--batch", "2"});
  const nlohmann::json json = nlohmann::json::parse(ended.out);
  CHECK(json["data"] == "random tokens");
  CHECK(json["ms_per_step"] > 0);
}

TEST_CASE("compare takes the tasks of lra") {
  const Expressions shop;
  Arguments flags = shop.tiny("compared") + Arguments{"--attention", "softmax,fastformer", "--task", "listops"};
  const Ended ended = done("compare", flags);
  CHECK(ended.out.find("accuracy") != std::string::npos);
  CHECK(fs::exists(shop / "compared/fastformer/results.json"));
}

TEST_CASE("lra refuses what cannot work before it reads data") {
  const Expressions shop;
  check_refused(run_program("lra", {"--task", "chess"}), 2, "--task chess: must be listops or text");
  check_refused(run_program("lra", shop.tiny("x") + Arguments{"--pool", "most"}), 2, "--pool");
  check_refused(run_program("lra", shop.tiny("x") + Arguments{"--window", "8"}), 2,
                "--window 8 does not apply to --attention softmax");
  check_refused(run_program("lra", shop.tiny("x") + Arguments{"--preset", "lra-text"}), 2, "lra-text");
  check_refused(run_program("lra", shop.tiny("x") + Arguments{"--batch", "100"}), 2,
                "--batch 100: there are 24 examples");
  check_refused(run_program("lra", {"--table", "--out", shop / "data"}), 1, "holds no finished run of lra");
  check_refused(run_program("lra", {"--figures", "--out", shop / "nothing"}), 1, "nothing");
  check_refused(run_program("lra", {"--table", "--task", "text"}), 2, "--task does not apply to --table");
  check_refused(run_program("bench", {"step", "--preset", "lra-listops", "--data", "."}), 2, "--data");
  CHECK(!fs::exists(shop / "x"));
}
