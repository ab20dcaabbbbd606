/// The files of lra's runs, and settings that are refused before data are read or generated.

#include <doctest/doctest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "support/lra/load.h"
#include "support/run/run_folder.h"
#include "tests/examples/lra/expressions.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::Ended;
using linnet::test::run_program;
using linnet::test::write_bytes;
namespace fs = std::filesystem;

TEST_CASE("lra: a resumed run reports the largest peak memory of all its parts") {
  const Expressions shop;
  done("lra", shop.tiny("run"));
  std::string lines;
  for (nlohmann::json line : metrics_of(shop / "run")) {
    if (line["step"] == 2) line["peak_bytes"] = 1'000'000'000'000;
    lines += line.dump() + "\n";
  }
  write_bytes(shop / "run/metrics.jsonl", lines);
  done("lra", {"--task", "listops", "--resume", "--out", shop / "run", "--steps", "8"});
  CHECK(results_of(shop / "run")["peak_bytes"] == 1'000'000'000'000);
}

TEST_CASE("lra: tokens a second are all tokens over all time") {
  const Expressions shop;
  done("lra", shop.tiny("run"));
  const examples::SequenceData data = examples::load_sequences(examples::read_config(shop / "run"));
  const auto mean = std::ssize(data.train.first().bytes()) / data.train.size();  // whole tokens
  for (const nlohmann::json& line : metrics_of(shop / "run")) {
    const double tokens = line["tokens_per_second"].get<double>() * line["seconds"].get<double>();
    CHECK(tokens == doctest::Approx(static_cast<double>(8 * mean) * line["step"].get<double>()));
  }
}

TEST_CASE("lra: results.json has what the commonest answer of the training data comes to on the test data") {
  const Expressions shop;
  std::string sevens, twos;
  for (int i = 0; i < 9; ++i) {
    sevens += "( ( ( [MAX 7 ) 7 ) ] )\t7\n";
    twos += "( ( ( [MAX 2 ) 2 ) ] )\t2\n";
  }
  write_bytes(shop / "data/listops/basic_train.tsv", "Source\tTarget\n" + sevens + sevens + twos);
  write_bytes(shop / "data/listops/basic_test.tsv", "Source\tTarget\n" + sevens + twos + twos);
  done("lra", shop.tiny("run"));
  CHECK(results_of(shop / "run")["constant_accuracy"].get<double>() == doctest::Approx(1.0 / 3));
}

TEST_CASE("lra: a folder that is taken is refused before data are made") {
  const Expressions shop;
  done("lra", shop.tiny("run"));
  fs::create_directories(shop / "empty");
  const Ended ended = run_program(
      "lra", {"--task", "listops", "--preset", "lra-listops-small", "--data", shop / "empty", "--out", shop / "run"});
  check_refused(ended, 1, (shop / "run").string() + " holds a run already");
  CHECK(fs::is_empty(shop / "empty"));
}

TEST_CASE("lra --sheet draws images of Pathfinder alone") {
  const Expressions shop;
  const Arguments sheet{"--task", "pathfinder", "--sheet", shop / "sheet.png"};
  for (const Arguments& flag : {Arguments{"--attention", "fastmax2"},
                                {"--steps", "5"},
                                {"--lr", "7"},
                                {"--resume"},
                                {"--seed", "2"},
                                {"--black-is-padding"}}) {
    check_refused(run_program("lra", sheet + flag), 2, flag[0] + " does not apply to --sheet, which trains nothing");
  }
  CHECK(!fs::exists(shop / "sheet.png"));
  done("lra", sheet + Arguments{"--preset", "lra-pathfinder-small", "--contour-length", "7", "--distractors", "1",
                                "--data-seed", "2"});
  CHECK(fs::file_size(shop / "sheet.png") > 1000);
  check_refused(run_program("lra", {"--task", "text", "--sheet", shop / "x.png"}), 2,
                "--sheet draws images of --task pathfinder, not of text; name that task");
  check_refused(run_program("lra", {"--sheet", shop / "x.png", "--table"}), 2, "--sheet does not apply to --table");
}

TEST_CASE("lra: --data-seed is no flag of tasks whose data nothing generates") {
  for (const std::string task : {"image", "digits"}) {
    check_refused(run_program("lra", {"--task", task, "--data-seed", "2"}), 2, "--data-seed");
  }
}
