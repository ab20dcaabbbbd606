/// The program summarise: training, resuming, what it writes, and refusals.

#include <algorithm>

#include <doctest/doctest.h>

#include <linnet/nn/attention/mechanism.h>
#include <nlohmann/json.hpp>

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

/// A folder with small articles, where programs can write.
class Articles {
 public:
  Articles() {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string number = std::to_string(i);
      lines += R"({"article": "The cat number )" + number + R"( sat here. It was )" + number +
               R"( years old. Nobody knew.", "summary": "a cat of )" + number + R"( years"})" + "\n";
    }
    write_bytes(folder_ / "articles.jsonl", lines);
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

  Arguments tiny(const std::string& out, const std::string& task) const {
    Arguments flags{"--task",           task, "--out",        folder_ / out, "--layers", "1",
                    "--width",          "16", "--heads",      "2",           "--steps",  "6",
                    "--decoder-layers", "1",  "--eval-every", "3",           "--batch",  "8"};
    if (task == "cnn-dailymail") {
      flags = flags + Arguments{"--data", folder_ / "articles.jsonl", "--vocabulary", "300", "--target-tokens", "12"};
    }
    return flags;
  }

 private:
  linnet::test::TemporaryFolder folder_;
};

nlohmann::json measures_in(const fs::path& run) {
  return nlohmann::json::parse(read_bytes(run / "results.json")).at("measures");
}

}  // namespace

TEST_CASE("summarise: articles of a file, ROUGE and a table") {
  const Articles shop;
  const Ended ended = done("summarise", shop.tiny("run", "cnn-dailymail") + Arguments{"--context", "10"});
  CHECK(ended.err.find("40 of 40 articles are cut to 10 tokens (--context)") != std::string::npos);
  CHECK(ended.out.find("softmax, this run") != std::string::npos);
  CHECK(ended.out.find("first three sentences") != std::string::npos);
  CHECK(ended.out.find("Fastformer, published") != std::string::npos);
  CHECK(ended.out.find("\nthis run and the first three sentences: articles.jsonl (") != std::string::npos);
  CHECK(ended.out.find("\npublished: CNN/DailyMail, by Wu et al. 2021, table 6, ") != std::string::npos);
  const nlohmann::json measures = measures_in(shop / "run");
  for (const char* const name : {"R-1", "R-2", "R-L", "R-Lsum", "first 3 R-1"}) {
    CHECK(measures.at(name).get<double>() >= 0);
    CHECK(measures.at(name).get<double>() <= 100);
  }
  CHECK(measures.at("first 3 R-1").get<double>() > 10);
  CHECK(read_bytes(shop / "run/samples.txt").find("---- written ----") != std::string::npos);
  CHECK(config_of(shop / "run")["settings"]["cross"] == "softmax");
}

TEST_CASE("summarise: every mechanism trains, in encoder, decoder and between them") {
  const Articles shop;
  const auto check = [&](const std::string& flag, const std::string& mechanism) {
    CAPTURE(flag);
    CAPTURE(mechanism);
    const std::string out = flag.substr(2) + "-" + mechanism;
    done("summarise", shop.tiny(out, "sort") + Arguments{"--steps", "2", "--eval-every", "2", flag, mechanism});
    CHECK(measures_in(shop / out).at("exact match").get<double>() <= 100);
  };
  for (const std::string& mechanism : nn::attention_mechanisms()) check("--attention", mechanism);
  for (const std::string mechanism : {"fastmax2", "fastformer", "reformer"}) check("--decoder-attention", mechanism);
  for (const std::string& mechanism : nn::cross_mechanisms()) check("--cross", mechanism);
}

TEST_CASE("summarise: a run that was killed ends with the bits of one that was not") {
  const Articles shop;
  const Arguments flags{"--steps", "60", "--eval-every", "5", "--checkpoint-every", "7", "--dropout", "0.1"};
  done("summarise", shop.tiny("whole", "copy") + flags);
  ChildProgram killed("summarise", shop.tiny("killed", "copy") + flags);
  const fs::path metrics = shop / "killed/metrics.jsonl";
  while (killed.running() && (!fs::exists(metrics) || std::ranges::count(read_bytes(metrics), '\n') < 4)) {
  }
  killed.kill();
  (void)killed.wait();
  done("summarise", {"--task", "copy", "--out", shop / "killed", "--resume"});
  CHECK(read_bytes(shop / "killed/model.safetensors") == read_bytes(shop / "whole/model.safetensors"));
  CHECK(measures_in(shop / "killed") == measures_in(shop / "whole"));
}

TEST_CASE("summarise: refusals") {
  const Articles shop;
  const auto refused = [&](const Arguments& flags, const std::string& because) {
    const Ended ended = run_program("summarise", shop.tiny("refused", "cnn-dailymail") + flags);
    CAPTURE(ended.err);
    CHECK(ended.code != 0);
    CHECK(ended.err.find(because) != std::string::npos);
    CHECK_FALSE(fs::exists(shop / "refused"));
  };
  refused({"--cross", "longformer"}, "longformer");
  refused({"--decoder-attention", "linformer"}, "linformer has no causal form");
  refused({"--beam", "0"}, "--beam");
  refused({"--max-length", "13"}, "--max-length 13: must lie from 0 to 12");
  refused({"--min-length", "13"}, "--min-length 13: must lie from 0 to 12");
  refused({"--alpha", "-1"}, "--alpha -1: must lie from 0 to 100");
  refused({"--label-smoothing", "1"}, "--label-smoothing 1: must be from 0 to less than 1");
  refused({"--data", shop / "none"}, "there is no such file or folder");
  refused({"--batch", "33"}, "--batch 33: there are 32 articles to train on; lower it");
  for (const Arguments& flag : {Arguments{"--vocabulary", "500"}, {"--strict"}}) {
    check_refused(
        run_program("summarise", Arguments{"--task", "pubmed", "--stand-in", "--out", shop / "refused"} + flag), 2,
        flag[0] + " does not apply to the generated data that stand in for the public set; leave it out");
  }
}
