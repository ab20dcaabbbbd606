/// The program lra: training, the best weights, results of several runs, and refusals.

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

#include "tests/examples/plot/picture.h"
#include "tests/examples/run/tiny_run.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::ChildProgram;
using linnet::test::Ended;
using linnet::test::read_bytes;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

namespace {

/// A folder with 24 small expressions where programs look for ListOps, and room for what they write.
class Expressions {
 public:
  Expressions() {
    fs::create_directories(folder_ / "data/listops");
    std::string lines = "Source\tTarget\n";
    for (int i = 0; i < 24; ++i) {
      const int a = i % 10, b = (3 * i) % 10, c = (7 * i + 1) % 10;
      lines += i % 3 == 0 ? fmt::format("( ( ( [MAX {} ) {} ) ] )\t{}\n", a, b, std::max(a, b))
                          : fmt::format("( ( ( ( [SM {} ) {} ) {} ) ] )\t{}\n", a, b, c, (a + b + c) % 10);
    }
    for (const std::string part : {"train", "val", "test"}) {
      write_bytes(folder_ / ("data/listops/basic_" + part + ".tsv"), lines);
    }
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

  /// The flags of a run of a moment into the folder `out`.
  Arguments tiny(const std::string& out, const std::string& attention = "softmax") const {
    return {"--preset", "lra-listops", "--data",       folder_ / "data",
            "--out",    folder_ / out, "--attention",  attention,
            "--layers", "1",           "--width",      "16",
            "--heads",  "2",           "--steps",      "6",
            "--batch",  "8",           "--eval-every", "2"};
  }

 private:
  linnet::test::TemporaryFolder folder_;
};

std::vector<nlohmann::json> metrics_of(const fs::path& run) {
  std::istringstream lines(read_bytes(run / "metrics.jsonl"));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

nlohmann::json results_of(const fs::path& run) { return nlohmann::json::parse(read_bytes(run / "results.json")); }

}  // namespace

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
  // A rate this high makes later weights worse, so that the best ones are not the last.
  const Arguments flags = Arguments{"--lr", "0.3", "--warmup", "1", "--steps", "12", "--eval-every", "1"};
  done("lra", shop.tiny("run") + flags);
  const std::vector<nlohmann::json> metrics = metrics_of(shop / "run");
  REQUIRE(metrics.size() == 13);
  const auto best =
      std::ranges::max_element(metrics, {}, [](const auto& m) { return m["accuracy"].template get<double>(); });
  REQUIRE(best != metrics.end() - 1);
  const nlohmann::json results = results_of(shop / "run");
  CHECK(results["step"] == (*best)["step"]);
  CHECK(results["accuracy"] == (*best)["accuracy"]);  // the test set has the same examples

  // The same weights are those of a run whose schedule stopped there: they differ from the checkpoint's.
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
  const Ended table = done("lra", {"--table", "--out", shop / "runs"});
  CHECK(table.out.find("(2 seeds)") != std::string::npos);
  const double first = results_of(shop / "runs/softmax-1")["accuracy"],
               second = results_of(shop / "runs/softmax-2")["accuracy"];
  CHECK(table.out.find(fmt::format("{:.2f} ± ", 50 * (first + second))) != std::string::npos);
  CHECK(table.out.find("fastmax2") < table.out.find("beside published"));
  CHECK(table.out.find("57.91") != std::string::npos);  // of fastmax2; Gerami et al. print 57.90

  done("lra", {"--figures", "--out", shop / "runs"});
  for (const std::string name : {"-accuracy.png", "-loss.png", "-loss-seconds.png"}) {
    CHECK(fs::exists(shop / ("runs/lra-listops" + name)));
  }
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
  CHECK(!fs::exists(shop / "x"));
}
